import ApusModel
import ApusWire
import Testing

@Suite("Tuples of the feedback service")
struct FeedbackTupleTests {
  private static let token = BinaryFixture.token
  private static let list = hex(
    "5f5e1000 0020 \(token) 00000000 0001 ff ffffffff 0064 \(run("a1", 100)) 5f5e1001 0020 \(token)"
  )
  private static let tuples = [
    FeedbackTuple(timeSeconds: 0x5f5e_1000, token: hex(token)),
    FeedbackTuple(timeSeconds: 0, token: [0xff]),
    FeedbackTuple(timeSeconds: .max, token: [UInt8](repeating: 0xa1, count: 100)),
    FeedbackTuple(timeSeconds: 0x5f5e_1001, token: hex(token)),
  ]

  /// Everything that a reader finds when it is fed one part after the other, and the final fault.
  private func read(_ parts: [[UInt8]]) -> ([FeedbackTuple], FeedbackTupleFault?) {
    var reader = FeedbackTupleReader()
    var tuples: [FeedbackTuple] = []
    do throws(FeedbackTupleFault) {
      for part in parts {
        var offset = 0
        while let tuple = try reader.next(part.span, at: &offset) { tuples.append(tuple) }
        #expect(offset == part.count, "an input is taken in whole")
      }
      try reader.finish()
    } catch {
      return (tuples, error)
    }
    return (tuples, nil)
  }

  @Test("A tuple is written")
  func written() {
    var bytes = hex("ff")
    bytes.append(feedbackTuple: hex(Self.token).span, timeSeconds: 0x5f5e_1000)
    #expect(bytes == hex("ff 5f5e1000 0020 \(Self.token)"))
    #expect(bytes.count == 1 + 38)
  }

  @Test("A list with tokens of all lengths is written and read")
  func list() {
    var bytes: [UInt8] = []
    for tuple in Self.tuples {
      bytes.append(feedbackTuple: tuple.token.span, timeSeconds: tuple.timeSeconds)
    }
    #expect(bytes == Self.list)
    #expect(read([bytes]) == (Self.tuples, nil))
  }

  @Test("A token that no reader accepts traps", arguments: [0, 101])
  func unwritable(_ count: Int) async {
    await #expect(processExitsWith: .failure) { [count] in
      var bytes: [UInt8] = []
      bytes.append(feedbackTuple: [UInt8](repeating: 1, count: count).span, timeSeconds: 1)
    }
  }

  @Test("A list cut at any two bytes gives the same tuples")
  func everyCut() {
    let list = Self.list
    for first in 0...list.count {
      for second in stride(from: first, through: list.count, by: 7) {
        let parts = [list[..<first], list[first..<second], list[second...]].map(Array.init)
        #expect(read(parts) == (Self.tuples, nil), "at \(first) and \(second)")
      }
    }
    #expect(read(list.map { [$0] }) == (Self.tuples, nil), "byte by byte")
  }

  @Test("A list that ends inside a tuple is not complete")
  func truncated() {
    for cut in 1..<38 {
      let end = [UInt8](Self.list[..<cut])
      #expect(read([end]) == ([], .truncated(byteCount: cut)))
      #expect(read([Self.list + end]) == (Self.tuples, .truncated(byteCount: cut)))
    }
    #expect(read([]) == ([], nil))
  }

  @Test(
    "A token of an invalid length is a fault, and the fault persists", arguments: [0, 101, 65_535])
  func tokenLength(_ count: Int) {
    let bad = hex("5f5e1000") + [UInt8(count >> 8), UInt8(count & 255)]
    let fault = FeedbackTupleFault.tokenLength(byteCount: count)
    #expect(read([Self.list + bad + Self.list]) == (Self.tuples, fault))
    #expect(read((Self.list + bad).map { [$0] }) == (Self.tuples, fault))

    var reader = FeedbackTupleReader()
    var offset = 0
    #expect(throws: fault) { try reader.next(bad.span, at: &offset) }
    offset = 0
    #expect(throws: fault) { try reader.next(Self.list.span, at: &offset) }
    #expect(offset == 0)
  }
}
