import ApusModel
import ApusWire
import CourierVectors
import Foundation
import Testing

@Suite("Courier vectors")
struct CourierVectorTests {
  @Test("The vectors can be read, and each has a name of its own")
  func readable() throws {
    let all = try CourierVector.read()
    #expect(all.count > 100)
    #expect(Set(all.map(\.name)).count == all.count)
    for vector in all {
      #expect(!vector.bytes.isEmpty, "\(vector.name)")
      #expect((vector.decoded == nil) != (vector.fault == nil), "\(vector.name)")
    }
  }

  @Test("A frame says what its vector says", arguments: CourierVector.all)
  func decoding(vector: CourierVector) {
    do {
      let meaning = try CourierMeaning.of(
        vector.bytes, toService: vector.isToService, extensions: vector.allowsExtensions)
      #expect(meaning == vector.decoded)
    } catch let fault as CourierFault {
      #expect(CourierVector.facts(of: fault) == vector.fault)
    } catch {
      Issue.record(error)
    }
  }

  @Test(
    "A message that is encoded gives its vector's bytes",
    arguments: CourierVector.all.filter {
      $0.isCanonical && $0.fault == nil && $0.decoded?["message"] != "unknown"
    })
  func encoding(vector: CourierVector) throws {
    let facts = try #require(vector.decoded)
    let encoding = CourierVectorEncoding(
      facts: facts, isToService: vector.isToService, allowsExtensions: vector.allowsExtensions)
    #expect(encoding.frame() == vector.bytes)
  }

  /// The frame of which the bytes come one by one; nil where its end does not come.
  private func whole(_ bytes: [UInt8]) throws(CourierFault) -> [UInt8]? {
    var framer = CourierFramer()
    for byte in bytes {
      let input = [byte]
      var offset = 0
      guard let frame = try framer.next(input.span, at: &offset) else { continue }
      return Array(bytes.prefix(5)) + frame.fields(in: input.span).copied()
    }
    return nil
  }

  @Test("Byte by byte, a frame and its fault are the same", arguments: CourierVector.all)
  func bytewise(vector: CourierVector) {
    let frame: [UInt8]?
    do throws(CourierFault) {
      frame = try whole(vector.bytes)
    } catch {
      #expect(CourierVector.facts(of: error) == vector.fault)
      return
    }
    #expect(frame == vector.bytes)
  }
}
