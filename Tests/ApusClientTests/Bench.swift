import ApusHTTP2
import ApusModel
import Testing

@testable import ApusClient

/// A dispatcher without sockets and without a clock.
final class Bench {
  let dispatcher: Dispatcher
  var now: UInt64 = 1000
  private(set) var outcomes: [UInt64: SendOutcome] = [:]
  private var sends: [UInt64: PendingSend] = [:]
  /// Called when the service considers the token expired.
  var renew: () -> Bool = { false }

  init(
    authorization: [UInt8]? = Array("bearer a.b.c".utf8), entropy: UInt64 = 0,
    _ change: (inout DispatcherSettings) -> Void = { _ in }
  ) {
    var settings = DispatcherSettings(authority: Array("push.example".utf8), queueCapacity: 100)
    change(&settings)
    var renew: () -> Bool = { false }
    dispatcher = Dispatcher(
      settings: settings, authorization: { authorization }, renewAuthorization: { renew() },
      entropy: { entropy })
    renew = { [unowned self] in self.renew() }
  }

  static func id(_ number: UInt64) -> NotificationID {
    NotificationID(high: 0x0123_4567_89ab_cdef, low: number)
  }

  func send(
    _ numbers: ClosedRange<UInt64>, seconds: UInt64 = 30, payloadBytes: Int = 10
  ) throws {
    for number in numbers {
      var request = PushRequest(
        token: String(repeating: "0a", count: 32), topic: "com.example.app",
        payload: Array("{\"aps\":{}}".utf8))
      request.payload += [UInt8](repeating: 0x20, count: payloadBytes - request.payload.count)
      request.id = Self.id(number)
      let send = PendingSend(
        push: try EncodedPush(request, id: Self.id(0)), timeoutMilliseconds: seconds * 1000
      ) { [unowned self] outcome in
        #expect(outcomes[number] == nil, "push \(number) has one outcome")
        outcomes[number] = outcome
      }
      sends[number] = send
      dispatcher.add(send, nowMilliseconds: now)
    }
  }

  func cancel(_ number: UInt64) {
    guard let send = sends[number] else { preconditionFailure("no such push") }
    dispatcher.cancel(send, nowMilliseconds: now)
  }

  func fill() { dispatcher.fill(nowMilliseconds: now) }

  /// Opens the connection that the dispatcher wants, and sends the service's first SETTINGS frame.
  func connect(
    streams: UInt8? = 100, sourceLocation: SourceLocation = #_sourceLocation
  ) -> ProviderSession {
    let wanted = dispatcher.wantsConnection(nowMilliseconds: now)
    #expect(wanted, "a connection is wanted", sourceLocation: sourceLocation)
    let session = dispatcher.connected(nowMilliseconds: now)
    if let streams { give(session, Frames.settings(streams: streams)) }
    return session
  }

  var wantsConnection: Bool { dispatcher.wantsConnection(nowMilliseconds: now) }

  func give(_ session: ProviderSession, _ bytes: [UInt8]...) {
    for part in bytes {
      _ = part.withUnsafeBytes { session.receive($0) }
      dispatcher.progress(session, nowMilliseconds: now)
    }
  }

  func lose(_ session: ProviderSession, isFinal: Bool = false) {
    dispatcher.lost(session, "the wire was cut", isFinal: isFinal, nowMilliseconds: now)
  }

  /// The session's output.
  func take(_ session: ProviderSession) -> [UInt8] {
    var output: [UInt8] = []
    session.pendingOutput(into: &output, limit: .max)
    return output
  }

  func wait(milliseconds: UInt64) {
    now += milliseconds
    dispatcher.tick(nowMilliseconds: now)
  }

  func accepted(_ number: UInt64) -> Bool {
    outcomes[number] == .accepted(apnsID: Self.id(number), uniqueID: nil)
  }

  /// The cause of an unknown outcome; nil for other outcomes.
  func unknown(_ number: UInt64) -> (code: UnknownCause.Code, mayDuplicate: Bool)? {
    guard case .unknown(let cause, let mayDuplicate) = outcomes[number] else { return nil }
    return (cause.code, mayDuplicate)
  }
}
