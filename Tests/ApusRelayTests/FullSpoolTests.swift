import ApusCore
import ApusModel
import ApusRelay
import ApusServer
import Testing

@Suite("Senders wait while the spool is full, and no longer")
struct FullSpoolTests {
  @Test("If the operator makes room, they go on")
  func confirmed() throws {
    // Four rows of 121 bytes fit.
    let bench = try RelayBench(SpoolLimits(byteCount: 550, ageSeconds: 3600))
    for number in 0..<8 {
      // Three are reported, the others are held.
      let token = LegacyFrame.token(0xd0 + UInt8(number))
      let bad = PlannedFault.Effect.respond(.init(status: 400, reason: "BadDeviceToken"))
      bench.script.answer(token.text, .delay(milliseconds: 200, then: bad))
      try bench.accept(LegacyFrame.framed(1, token.bytes))
    }
    try waitFor { bench.figures().first?.doubtedCount == 5 }
    try waitFor { bench.relay.isFull }
    bench.relay.obey(.confirm, AppID(1))
    try bench.drain()
    try waitFor { !bench.relay.isFull }
    try bench.accept(LegacyFrame.framed(1, LegacyFrame.token(0xd9).bytes))
  }
}
