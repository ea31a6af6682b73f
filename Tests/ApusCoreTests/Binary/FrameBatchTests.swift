import ApusRandom
import ApusCore
import ApusModel
import ApusWire
import Testing

@Suite("Looking ahead at the frames of one input")
struct FrameBatchTests {
  private func connection() -> BinaryConnection {
    BinaryConnection(limits: BinaryFrameLimits(), confirmsAccepted: true)
  }

  private func end(_ machine: inout BinaryConnection) -> [BinaryConnection.Effect] {
    var effects: [BinaryConnection.Effect] = []
    while true {
      let effect = machine.nextEffect()
      if effect == .none { return effects }
      effects.append(effect)
    }
  }

  private func packet(_ status: BinaryStatus, _ identifier: UInt32) -> BinaryErrorPacket {
    BinaryErrorPacket(status: status, identifier: identifier)
  }

  @Test("A fault after good frames is not reported before these are processed")
  func faultBehind() {
    var machine = connection()
    var batch = FrameBatch()
    let input = Frames.framed(1) + Frames.enhanced(2) + Frames.knownBad + Frames.framed(3)
    machine.lookAhead(input.span, from: 0, into: &batch)
    #expect(batch.frames.map(\.identifier) == [1, 2])
    #expect(batch.tokens.map(\.bytes) == [Frames.token, Frames.token])
    #expect(machine.pendingCount == 0)
    #expect(machine.nextEffect() == .none)
    var offset = 0
    for frame in batch.frames {
      offset += frame.byteCount
      machine.accept(frame, nowSeconds: 1)
    }
    machine.lookAhead(input.span, from: offset, into: &batch)
    #expect(batch.count == 0)
    #expect(machine.next(input.span, at: &offset, nowSeconds: 1) == .fault(.tokenMissing))
    #expect(machine.next(input.span, at: &offset, nowSeconds: 1) == .over)
    #expect(
      end(&machine) == [
        .confirm(packet(.noError, 1)), .confirm(packet(.noError, 2)),
        .end(packet(.missingDeviceToken, 7)),
      ])
  }

  @Test("No frame is found after one that was rejected in the middle of a batch")
  func refusedInside() {
    var machine = connection()
    var batch = FrameBatch()
    let input = Frames.framed(1) + Frames.framed(2) + Frames.framed(3)
    machine.lookAhead(input.span, from: 0, into: &batch)
    #expect(batch.count == 3)
    let frames = batch.frames
    let first = machine.submit(frames[0], nowSeconds: 1)
    machine.refuse(frames[1], status: .invalidToken, nowSeconds: 1)
    var offset = frames[0].byteCount + frames[1].byteCount
    machine.lookAhead(input.span, from: offset, into: &batch)
    #expect(batch.count == 0)
    #expect(machine.next(input.span, at: &offset, nowSeconds: 1) == .over)
    #expect(offset == input.count)
    #expect(end(&machine) == [])
    machine.decide(first, status: nil)
    #expect(
      end(&machine) == [.confirm(packet(.noError, 1)), .end(packet(.invalidToken, 2))])
  }

  @Test("A batch is bounded")
  func limit() {
    var machine = connection()
    var batch = FrameBatch()
    let one = Frames.simple()
    let input = (0...FrameBatch.capacity).flatMap { _ in one }
    machine.lookAhead(input.span, from: 0, into: &batch)
    #expect(batch.count == FrameBatch.capacity)
    machine.lookAhead(input.span, from: FrameBatch.capacity * one.count, into: &batch)
    #expect(batch.count == 1)
    machine.lookAhead(input.span, from: input.count, into: &batch)
    #expect(batch.count == 0)
  }

  @Test("A frame in two parts is left to `next`, and those after it are found")
  func cut() {
    var machine = connection()
    var batch = FrameBatch()
    let frame = Frames.framed(1)
    let head = Array(frame.prefix(20))
    machine.lookAhead(head.span, from: 0, into: &batch)
    #expect(batch.count == 0)
    var offset = 0
    #expect(machine.next(head.span, at: &offset, nowSeconds: 1) == .wait)
    let rest = Array(frame.dropFirst(20)) + Frames.framed(2)
    machine.lookAhead(rest.span, from: 0, into: &batch)
    #expect(batch.count == 0)
    offset = 0
    guard case .frame(let whole) = machine.next(rest.span, at: &offset, nowSeconds: 1) else {
      Issue.record("the frame was not put together")
      return
    }
    #expect(whole.identifier == 1)
    #expect(machine.bytes(of: whole, in: rest.span, before: offset).array == frame)
    machine.accept(whole, nowSeconds: 1)
    machine.lookAhead(rest.span, from: offset, into: &batch)
    #expect(batch.frames.map(\.identifier) == [2])
  }

  @Test("Looking ahead finds the same frames as single steps", arguments: 0..<100)
  func walk(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var stream: [UInt8] = []
    for _ in 0..<(1 + random.below(120)) {
      switch random.below(40) {
      case 0: stream += Frames.knownBad
      case 1: stream += [0x07]
      case 2..<15: stream += Frames.simple()
      case 15..<25: stream += Frames.enhanced(UInt8(random.below(200)))
      default: stream += Frames.framed(UInt8(random.below(200)))
      }
    }
    var stepping = connection()
    var looking = connection()
    var batch = FrameBatch()
    var rest = stream[...]
    while !rest.isEmpty {
      let part = Array(rest.prefix(1 + Int(random.below(4000))))
      rest = rest.dropFirst(part.count)
      var offset = 0
      while case .frame(let frame) = stepping.next(part.span, at: &offset, nowSeconds: 1) {
        stepping.accept(frame, nowSeconds: 1)
      }
      offset = 0
      while true {
        looking.lookAhead(part.span, from: offset, into: &batch)
        for frame in batch.frames {
          offset += frame.byteCount
          looking.accept(frame, nowSeconds: 1)
        }
        guard batch.count == 0 else { continue }
        guard case .frame(let frame) = looking.next(part.span, at: &offset, nowSeconds: 1) else {
          break
        }
        looking.accept(frame, nowSeconds: 1)
      }
    }
    #expect(end(&looking) == end(&stepping), "seed \(seed)")
  }
}
