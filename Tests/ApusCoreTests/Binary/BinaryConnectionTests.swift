import ApusCore
import ApusModel
import ApusWire
import Testing

@Suite("Binary connection")
struct BinaryConnectionTests {
  @Test("Success is silent, whatever the order of the decisions")
  func silence() {
    let peer = BinaryPeer()
    peer.receive(Frames.enhanced(1) + Frames.framed(2) + Frames.simple())
    #expect(peer.submitted == [0, 1, 2])
    for index in [2, 0, 1] {
      peer.accept(index)
      #expect(peer.effects() == [])
    }
    #expect(peer.pendingCount == 0)
  }

  @Test("Nothing is reported about a frame before all earlier frames are accepted for good")
  func order() {
    let peer = BinaryPeer()
    peer.receive(Frames.enhanced(1) + Frames.framed(2) + Frames.knownBad)
    #expect(peer.effects() == [])
    peer.accept(1)
    #expect(peer.effects() == [])
    peer.accept(0)
    #expect(peer.effects() == ["end 080200000007"])
    #expect(peer.effects() == [])
    #expect(peer.isEnded)
  }

  @Test("Confirmations come in the order of the frames, followed by an error")
  func confirmations() {
    let peer = BinaryPeer(confirms: true)
    peer.receive(
      Frames.enhanced(1) + Frames.framed(1) + Frames.simple() + Frames.framed(0) + Frames.knownBad)
    peer.accept(3)
    peer.accept(1)
    #expect(peer.effects() == [])
    peer.accept(0)
    #expect(peer.effects() == ["080000000001", "080000000001"])
    // Command 0 has no identifier to confirm.
    peer.accept(2)
    #expect(peer.effects() == ["080000000000", "end 080200000007"])
  }

  @Test("A frame that fails late ends the connection, and later frames are not reported")
  func lateFailure() {
    let peer = BinaryPeer(confirms: true)
    peer.receive(Frames.framed(1) + Frames.framed(2) + Frames.framed(3) + Frames.knownBad)
    peer.fail(1)
    peer.accept(2)
    #expect(peer.effects() == [])
    peer.accept(0)
    #expect(peer.effects() == ["080000000001", "end 080100000002"])
    peer.accept(2)
    #expect(peer.effects() == [])
  }

  @Test("The first decision on a frame counts")
  func decidedTwice() {
    let peer = BinaryPeer(confirms: true)
    peer.receive(Frames.framed(1) + Frames.framed(2))
    peer.accept(1)
    peer.fail(1)
    peer.accept(0)
    #expect(peer.effects() == ["080000000001", "080000000002"])
    peer.machine.decide(0, status: .processingError)
    peer.machine.decide(77, status: .processingError)
    #expect(peer.effects() == [])
  }

  @Test("A fault of command 0 closes the connection without a packet")
  func silentClose() {
    let peer = BinaryPeer()
    peer.receive(Frames.simple() + Frames.simple(payload: []) + Frames.framed(1))
    #expect(peer.submitted.count == 1)
    #expect(peer.effects() == [])
    peer.accept(0)
    #expect(peer.effects() == ["end"])
  }

  @Test(
    "An undefined command is a protocol error without an identifier",
    arguments: [3, 8, 22, 128, 255])
  func unknownCommand(command: UInt8) {
    let peer = BinaryPeer()
    peer.receive([command] + Frames.framed(1))
    #expect(peer.effects() == ["end 088000000000"])
  }

  @Test("After a bad frame all further input is discarded")
  func discarding() {
    let peer = BinaryPeer()
    peer.receive(Frames.knownBad + Frames.framed(1))
    for _ in 0..<100 { peer.receive([UInt8](repeating: 2, count: 10_000)) }
    #expect(peer.submitted.isEmpty)
    #expect(peer.effects() == ["end 080200000007"])
    peer.receive(Frames.framed(1))
    #expect(peer.submitted.isEmpty)
    #expect(peer.effects() == [])
  }

  @Test("A thousand frames in one input are a thousand notifications")
  func batch() {
    let peer = BinaryPeer(confirms: true)
    peer.receive((0..<1000).flatMap { Frames.framed(UInt8($0 % 256)) })
    #expect(peer.submitted == Array(0..<1000))
    for index in (0..<1000).reversed() { peer.accept(index) }
    let answers = (0..<1000).map { number in "0800000000" + Self.hex(UInt8(number % 256)) }
    #expect(peer.effects() == answers)
  }

  private static func hex(_ byte: UInt8) -> String {
    String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
  }

  @Test(
    "The result does not depend on where frames are split",
    arguments: [1, 2, 3, 5, 7, 66, 67, 82, 83, 84])
  func cuts(size: Int) {
    let frames = [Frames.framed(1), Frames.enhanced(2), Frames.simple(), Frames.framed(4)]
    let stream = Array(frames.joined()) + Frames.knownBad
    let peer = BinaryPeer()
    for start in stride(from: 0, to: stream.count, by: size) {
      peer.receive(Array(stream[start..<min(start + size, stream.count)]))
    }
    #expect(peer.lent.map { Array($0.prefix(90)) } == frames)
    for index in frames.indices { peer.accept(index) }
    #expect(peer.effects() == ["end 080200000007"])
  }
}

@Suite("The end of a binary connection")
struct BinaryConnectionEndTests {
  @Test("A shutdown names the last accepted notification, once everything is decided")
  func shutdown() {
    let peer = BinaryPeer()
    peer.receive(Frames.framed(1) + Frames.framed(2) + Frames.simple())
    peer.machine.drain()
    peer.receive(Frames.framed(3))
    #expect(peer.submitted.count == 3)
    peer.accept(0)
    #expect(peer.effects() == [])
    peer.accept(1)
    peer.accept(2)
    #expect(peer.effects() == ["end 080a00000002"])
  }

  @Test("The shutdown packet of a connection without frames has identifier 0")
  func unused() {
    let peer = BinaryPeer()
    peer.machine.drain()
    #expect(peer.effects() == ["end 080a00000000"])
  }

  @Test("The shutdown packet of a connection with an incomplete first frame has identifier 0")
  func begun() {
    let peer = BinaryPeer()
    peer.receive(Array(Frames.framed(1).prefix(40)))
    peer.machine.drain()
    #expect(peer.effects() == ["end 080a00000000"])
  }

  @Test("A provider that used command 0 gets no shutdown packet")
  func simple() {
    let peer = BinaryPeer()
    peer.receive(Frames.simple())
    peer.accept(0)
    peer.machine.drain()
    #expect(peer.effects() == ["end"])
  }

  @Test("An error takes precedence over a shutdown")
  func errorFirst() {
    let peer = BinaryPeer()
    peer.receive(Frames.framed(1) + Frames.knownBad)
    peer.machine.drain()
    peer.accept(0)
    #expect(peer.effects() == ["end 080200000007"])
  }

  @Test("A provider that has closed its side still learns of an error")
  func halfClosed() {
    let peer = BinaryPeer()
    peer.receive(Frames.framed(1) + Frames.framed(2) + Array(Frames.framed(3).prefix(20)))
    peer.machine.finish()
    #expect(peer.effects() == [])
    peer.accept(0)
    peer.fail(1)
    #expect(peer.effects() == ["end 080100000002"])

    let other = BinaryPeer()
    other.receive(Frames.framed(1))
    other.machine.finish()
    other.accept(0)
    #expect(other.effects() == ["end"])
  }

  @Test("A decision that does not come is a processing error after the answer timeout")
  func undecided() {
    let peer = BinaryPeer()
    peer.receive(Frames.framed(9))
    let limit = Int64(Limits.answerSeconds)
    #expect(peer.deadlineSeconds == peer.now + limit)
    peer.machine.tick(nowSeconds: peer.now + limit - 1)
    #expect(peer.effects() == [])
    peer.machine.tick(nowSeconds: peer.now + limit)
    #expect(peer.effects() == ["end 080100000009"])
  }

  @Test("A frame that its device holds back has no timeout until it is admitted")
  func heldBack() {
    let peer = BinaryPeer()
    peer.receive(Frames.framed(9))
    peer.machine.hold(peer.submitted[0])
    #expect(peer.deadlineSeconds == nil)
    peer.machine.tick(nowSeconds: peer.now + 1000)
    #expect(peer.effects() == [])
    peer.machine.resume(peer.submitted[0], nowSeconds: peer.now + 1000)
    #expect(peer.deadlineSeconds == peer.now + 1000 + Int64(Limits.answerSeconds))
    peer.accept(0)
    // A notice that comes too late changes nothing.
    peer.machine.hold(peer.submitted[0])
    #expect(peer.effects() == [])
    #expect(peer.pendingCount == 0)
  }

  @Test("While a frame is held back, the next one may be incomplete for longer than its timeout")
  func heldBackBeforePartial() {
    let peer = BinaryPeer()
    peer.receive(Frames.framed(1))
    peer.machine.hold(peer.submitted[0])
    peer.receive([2])
    let limit = Int64(Limits.binaryFrameSeconds)
    peer.machine.tick(nowSeconds: peer.now + limit)
    peer.accept(0)
    #expect(peer.effects() == [])
    #expect(peer.deadlineSeconds == peer.now + 2 * limit)
    peer.machine.tick(nowSeconds: peer.now + 2 * limit)
    #expect(peer.effects() == ["end"])
  }

  @Test(
    "An incomplete frame ends the connection after a timeout, and a quiet connection stays open")
  func stopped() {
    let peer = BinaryPeer()
    #expect(peer.deadlineSeconds == nil)
    peer.receive(Frames.framed(1))
    peer.accept(0)
    #expect(peer.effects() == [])
    #expect(peer.deadlineSeconds == nil)
    peer.machine.tick(nowSeconds: .max / 2)
    #expect(peer.effects() == [])
    peer.receive([2])
    let limit = Int64(Limits.binaryFrameSeconds)
    #expect(peer.deadlineSeconds == peer.now + limit)
    peer.machine.tick(nowSeconds: peer.now + limit)
    #expect(peer.effects() == ["end"])
  }
}
