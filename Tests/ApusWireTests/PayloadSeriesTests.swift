import ApusRandom
import ApusModel
import Testing

import ApusWire

@Suite("A series of payloads")
struct PayloadSeriesTests {
  /// The outcome of a scan: its findings, or its fault.
  private enum Outcome: Equatable {
    case found(PayloadScan)
    case fault(JSONFault)

    init(_ scan: () throws(JSONFault) -> PayloadScan) {
      do throws(JSONFault) { self = .found(try scan()) } catch { self = .fault(error) }
    }
  }

  /// Scans consecutive payloads; each must have the same outcome as on its own.
  private func check(_ payloads: [String], _ note: Comment? = nil) {
    let input = payloads.flatMap { Array($0.utf8) }
    var series = PayloadSeries(input.span)
    var start = 0
    for payload in payloads {
      let bytes = Array(payload.utf8)
      let place = start..<start + bytes.count
      start = place.upperBound
      var outcome: Outcome
      do throws(JSONFault) {
        outcome = .found(try series.scan(place))
      } catch {
        outcome = .fault(error)
      }
      let alone = Outcome { () throws(JSONFault) in try PayloadScan(bytes.span) }
      #expect(outcome == alone, "\(payload) in \(payloads); \(note ?? "")")
    }
  }

  @Test("The outcome does not depend on earlier payloads")
  func template() {
    check([
      #"{"aps":{"alert":{"title":"a","body":"b"},"sound":"x"},"id":1}"#,
      #"{"aps":{"alert":{"title":"a","body":"b"},"sound":"x"},"id":2}"#,
      #"{"aps":{"alert":{"title":"a","body":"b"},"badge":1},"id":2}"#,
      #"{"aps":{"alert":{"title":"a","body":"b"}},"aps":{}}"#,
      #"{"aps":{"alert":{"title":"a","body":"b"}},"aps":[]}"#,
      #"{"aps":{"content-available":1,"x":2}}"#, #"{"aps":{"content-available":1,"alert":2}}"#,
      #"{"aps":{"content-available":1,"sound":null}}"#,
    ])
  }

  @Test("A payload may be a prefix of the previous one, or extend it")
  func lengths() {
    let whole = #"{"aps":{"alert":"a","badge":3},"k":[1,2,{"a":[],"b":null}],"z":"end"}"#
    for count in 0...whole.utf8.count {
      let cut = String(whole.utf8.prefix(count))!
      check([whole, cut, whole, cut, cut + " ", cut + ",", whole + cut])
    }
  }

  @Test("A changed byte anywhere in the second payload is found")
  func spoiled() {
    let whole = #"{"aps":{"alert":{"loc-args":["a","b"],"n":-1.5e3},"sound":"s"},"d":[true,{}]}"#
    for index in whole.utf8.indices {
      for other in ["\"", ",", "{", "}", "[", "]", ":", "1", " ", "\\", "\u{1}"] {
        var spoiled = String(whole[..<index]) + other
        spoiled += whole[whole.utf8.index(after: index)...]
        check([whole, spoiled, whole, spoiled, spoiled])
      }
    }
  }

  @Test("Random templates, filled in at random, are scanned like single payloads")
  func random() {
    var generator = SystemRandomNumberGenerator()
    let seed = generator.next() as UInt64
    var random = SeededRandom(seed: seed)
    let parts = [
      #""alert":"a""#, #""alert":{"title":"t","body":"b"}"#, #""badge":1"#, #""sound":null"#,
      #""content-available":1"#, #""content-available":1.0"#, #""x":[{},[]]"#, #""\u0061ps":{}"#,
      #""mdm":"m""#, #""aps":{"alert":1,"b":2}"#, "", "]", #""é":"é\ud83d""#,
    ]
    for _ in 0..<2_000 {
      func members() -> String {
        (0..<random.next() % 5).map { _ in parts[Int(random.next() % UInt64(parts.count))] }
          .joined(separator: ",")
      }
      let aps = members()
      check(
        (0..<4).map { _ in "{\"aps\":{\(aps)},\(members())}" }, "seed \(seed)")
    }
  }
}
