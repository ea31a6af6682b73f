import Foundation
import Testing

@testable import ApusClient

@Suite("Custom keys are encoded as JSON")
struct CustomKeyTests {
  private func json(_ value: some Encodable) throws -> String {
    var custom = CustomKeys()
    try custom.set("v", value)
    let text = String(decoding: BackgroundPayload(custom: custom).bytes, as: UTF8.self)
    let start = try #require(text.range(of: #"},"v":"#)?.upperBound)
    return String(text[start...].dropLast())
  }

  private struct Order: Codable, Equatable {
    enum State: String, Codable { case open, closed }
    struct Item: Codable, Equatable {
      var name: String
      var count: UInt8?
    }
    var zebra: Int
    var apple: Double
    var items: [Item]
    var state: State
    var tags: [String: [Bool]]
    var date: Date
    var data: Data
    var url: URL
    var price: Decimal
  }

  @Test("A structure decodes with JSONDecoder to the original value")
  func roundTrip() throws {
    let order = Order(
      zebra: .min, apple: 0.1,
      items: [.init(name: "\"ä\"\n", count: nil), .init(name: "", count: 3)],
      state: .closed, tags: ["b": [true], "a": []], date: Date(timeIntervalSince1970: 1e9),
      data: Data([0, 255, 254]), url: try #require(URL(string: "https://example.com/?a=b")),
      price: try #require(Decimal(string: "19.99")))
    let text = try json(order)
    #expect(try JSONDecoder().decode(Order.self, from: Data(text.utf8)) == order)
    // Keys in sorted order, so that equal values have equal bytes.
    #expect(text.hasPrefix(#"{"apple":0.1,"data":"AP/+","date":21692800,"items":[{"name":"#))
    #expect(
      text.contains(#""price":19.99,"state":"closed","tags":{"a":[],"b":[true]},"url":"https:"#))
  }

  @Test("Numbers keep exactly their digits")
  func numbers() throws {
    #expect(try json(UInt64.max) == "18446744073709551615")
    #expect(try json(Int64.min) == "-9223372036854775808")
    #expect(try json(Int128.max) == "170141183460469231731687303715884105727")
    #expect(try json(Float(0.1)) == "0.1")
    #expect(try json(0.1 + 0.2) == "0.30000000000000004")
    #expect(try json(3.0) == "3")
    #expect(try json(1e300) == "1e+300")
    #expect(try json(-0.0) == "-0")
    for value in [Double.greatestFiniteMagnitude, .leastNonzeroMagnitude, 1e22, 123_456_789.125] {
      #expect(try JSONDecoder().decode(Double.self, from: Data(json(value).utf8)) == value)
    }
  }

  @Test("Optionals, nested containers, class hierarchies and numeric keys are encoded")
  func containers() throws {
    #expect(try json([1, nil, 3]) == "[1,null,3]")
    #expect(try json([2: "b", 1: "a"]) == #"{"1":"a","2":"b"}"#)
    #expect(try json(Derived()) == #"{"more":[[1],{"a":true}],"super":{"base":1}}"#)
    #expect(try json(Empty()) == "{}")
  }

  private class Base: Encodable {
    enum Keys: CodingKey { case base }
    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: Keys.self)
      try container.encode(1, forKey: .base)
    }
  }

  private final class Derived: Base {
    enum MoreKeys: CodingKey { case more, a }
    override func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: MoreKeys.self)
      var list = container.nestedUnkeyedContainer(forKey: .more)
      var inner = list.nestedUnkeyedContainer()
      var object = list.nestedContainer(keyedBy: MoreKeys.self)
      // Filled after they were handed out, out of order.
      try object.encode(true, forKey: .a)
      try inner.encode(1)
      try super.encode(to: container.superEncoder())
    }
  }

  private struct Empty: Encodable { func encode(to encoder: any Encoder) {} }

  @Test("Values that JSON cannot represent are rejected with their path")
  func refused() throws {
    func problem(_ body: () throws -> Void) throws -> String {
      do {
        try body()
        return "nothing is wrong"
      } catch let error as PushRequestError {
        #expect(error.code == .invalidPayload)
        return error.description
      }
    }
    #expect(try problem { _ = try json(["a": [1, Double.nan]]) }.contains("a.1 is nan"))
    #expect(try problem { _ = try json(-Float.infinity) }.contains("-inf"))
    #expect(try problem { _ = try CustomKeys(["aps": 1]) }.contains("aps"))
    #expect(try problem { _ = try CustomKeys([1, 2]) }.contains("object"))
    var custom = CustomKeys()
    #expect(try problem { try custom.set("aps", 1) }.contains("aps"))
    struct Deep: Encodable {
      func encode(to encoder: any Encoder) throws {
        var container = encoder.unkeyedContainer()
        try container.encode(self)
      }
    }
    #expect(try problem { _ = try json(Deep()) }.contains("deeper"))
  }
}
