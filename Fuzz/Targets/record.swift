import CShims

@testable import ApusTLS

// Records of TLS 1.3 from a peer that knows the keys and ignores all rules. The first byte selects the suite, the side
// and how the stream is split; steps follow, each a byte that selects the kind and a length of two bytes.
//
// However the stream is split, the outcome is the same; data arrives unchanged and in order; and everything written
// opens with the right keys, with one alert at its end if the peer broke a rule.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let bytes = input(start, count)
  guard let first = bytes.first else { return 0 }
  let steps = Array(bytes[1...])
  let suite = RecordSuite.allCases[Int(first) % 3]
  let whole = Conversation(suite, isServer: first & 0x80 == 0, steps, cut: .max)
  let cut = Conversation(suite, isServer: first & 0x80 == 0, steps, cut: 1 + Int(first & 0x7f) / 3)
  precondition(whole.outcome == cut.outcome, "a split changes the outcome")
  return 0
}

struct Outcome: Equatable {
  var received: [[UInt8]] = []
  var isClosed = false
  var failure: TLSError?
  /// The contents of the written records, each with its type last.
  var written: [[UInt8]] = []
}

final class Conversation {
  var outcome = Outcome()
  private let side: RecordSide
  private let buffers = TLSBuffers()
  private let suite: RecordSuite
  private let cut: Int
  private var to = apus_record_keys()
  private var from = apus_record_keys()
  private let sealer: OpaquePointer
  private let opener: OpaquePointer
  /// Data sent under the right keys before the first violation.
  private var sent: [[UInt8]] = []

  init(_ suite: RecordSuite, isServer: Bool, _ steps: [UInt8], cut: Int) {
    (self.suite, self.cut) = (suite, cut)
    var traffic = apus_traffic()
    traffic.is_server = isServer
    withUnsafeMutableBytes(of: &traffic.client_secret) { $0.copyBytes(from: 1...48) }
    withUnsafeMutableBytes(of: &traffic.server_secret) { $0.copyBytes(from: 101...148) }
    guard
      apus_keys_begin(&to, suite.shim, &traffic, !isServer),
      apus_keys_begin(&from, suite.shim, &traffic, isServer),
      let sealer = apus_aead_new(suite.shim, true), let opener = apus_aead_new(suite.shim, false),
      let side = RecordSide(
        &traffic, suite: suite, isResumed: false, protocolIndex: nil, facts: nil)
    else { preconditionFailure("OpenSSL fails") }
    (self.sealer, self.opener, self.side) = (sealer, opener, side)
    run(steps)
    let before = outcome.received.prefix(sent.count)
    precondition(Array(before) == Array(sent.prefix(before.count)), "data changes in transit")
  }

  deinit {
    apus_aead_free(sealer)
    apus_aead_free(opener)
  }

  private func run(_ steps: [UInt8]) {
    var place = 0
    var isPure = true
    while place + 3 <= steps.count {
      let kind = steps[place]
      let count = Int(steps[place + 1]) << 8 | Int(steps[place + 2])
      let end = min(place + 3 + count, steps.count)
      let content = Array(steps[(place + 3)..<end])
      place = end
      switch kind % 8 {
      case 0:  // As it is.
        isPure = false
        feed(content)
      case 1:
        if isPure, !content.isEmpty { sent.append(content) }
        feed(sealed(content + [23]))
      case 2: feed(sealed(content + [22]))
      case 3: feed(sealed(content + [21]))
      case 4:
        isPure = false
        feed(sealed(content))
      case 5:  // A KeyUpdate by the rules.
        feed(sealed([24, 0, 0, 1, UInt8(count & 1), 22]))
        _ = apus_keys_update(&to, suite.shim)
      case 6: write(content)
      default: close()
      }
    }
    let rest = outcome.failure
    if case .failed(let error) = side.endOfInput(), rest == nil {
      precondition(error == .truncated || outcome.isClosed, "an end of its own")
    }
  }

  private func sealed(_ inner: [UInt8]) -> [UInt8] {
    let count = inner.count + 16
    guard !inner.isEmpty, count < 65536 else { return inner }
    var record = [23, 3, 3, UInt8(count >> 8), UInt8(count & 0xff)] + inner
    record += [UInt8](repeating: 0, count: 16)
    let header = Array(record[..<5])
    let done = record[5...].withUnsafeMutableBufferPointer {
      apus_aead_seal(sealer, &to, header, $0.baseAddress, inner.count)
    }
    precondition(done, "OpenSSL fails")
    return record
  }

  private func feed(_ bytes: [UInt8]) {
    var rest = bytes[...]
    repeat {
      let part = Array(rest.prefix(cut))
      rest = rest.dropFirst(cut)
      part.withUnsafeBytes { input in
        buffers.lend(input)
        read()
      }
    } while !rest.isEmpty
    takeOutput()
  }

  private func read() {
    while true {
      switch side.read(buffers) {
      case .plaintext(let bytes):
        precondition((1...16384).contains(bytes.count), "the size of a record")
        precondition(!outcome.isClosed && outcome.failure == nil, "data after the end")
        outcome.received.append(Array(bytes))
        continue
      case .closedByPeer: outcome.isClosed = true
      case .failed(let error):
        precondition(outcome.failure == nil || outcome.failure == error, "another failure")
        outcome.failure = error
      case .needsInput: break
      case .handshakeCompleted: preconditionFailure("a second handshake")
      }
      precondition(!buffers.hasInput, "input is left over")
      return
    }
  }

  private func write(_ content: [UInt8]) {
    let before = outcome.written.count
    let isDone = (try? content.withUnsafeBytes { try side.write($0, buffers) }) != nil
    takeOutput()
    let data = outcome.written[before...].filter { $0.last == 23 }.flatMap { $0.dropLast() }
    precondition(data == (isDone ? content : []), "written data changes in transit")
  }

  private func close() {
    side.close(buffers)
    takeOutput()
  }

  private func takeOutput() {
    var rest = Array(buffers.output)[...]
    buffers.removeAllOutput()
    while !rest.isEmpty {
      let header = Array(rest.prefix(5))
      precondition(header.count == 5 && header.starts(with: [23, 3, 3]), "a header")
      let body = Array(rest.dropFirst(5).prefix(Int(header[3]) << 8 | Int(header[4])))
      var inner = [UInt8](repeating: 0, count: body.count)
      precondition(
        apus_aead_open(opener, &from, header, body, body.count, &inner), "a record has wrong keys")
      inner.removeLast(16)
      precondition(!isOver, "a record after the last one")
      outcome.written.append(inner)
      if inner.last == 22 { _ = apus_keys_update(&from, suite.shim) }
      rest = rest.dropFirst(5 + body.count)
    }
  }

  /// Whether a fatal alert or close_notify was written: nothing may follow.
  private var isOver: Bool { outcome.written.last?.last == 21 }
}
