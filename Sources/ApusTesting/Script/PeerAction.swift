package import ApusRandom
import ApusModel

/// An action of a scripted service for one complete request.
package enum PeerAction: Sendable, Hashable {
  /// 200: the service has accepted the notification. Services sometimes send `apns-unique-id`, and never a body; some
  /// proxies do.
  case accept(uniqueID: Bool, body: Bool)
  /// The service's own answer: a status with a reason, and with 410 a time.
  case reject(status: Int, reason: String, retryAfter: String?)
  /// An answer whose body has no reason.
  case garbage(status: Int, body: String)
  /// An answer with header fields only.
  case headersOnly(status: Int)
  /// The header fields of an answer that never ends.
  case half(status: Int)
  /// RST_STREAM. REFUSED_STREAM (7) means that nothing was processed; with any other code the service may have accepted
  /// the notification.
  case reset(code: UInt32, isTaken: Bool)
  /// No answer.
  case ignore(isTaken: Bool)
  /// GOAWAY with this stream as the last one, or the one before it; `isTaken` applies to the former.
  case goAway(includesThis: Bool, isTaken: Bool, debug: String)
  /// Ends the connection. Earlier output may be lost, too.
  case cut(isTaken: Bool)
  /// Closes the service's side after all its output, without GOAWAY; it still reads from the client.
  case halfClose(isTaken: Bool)

  /// Each documented reason, with its status.
  package static let documented: [PeerAction] = Reason.allCases.map {
    .reject(status: Int($0.status), reason: $0.text.description, retryAfter: nil)
  }

  /// A random action of any kind.
  package static func random(_ random: inout SeededRandom) -> PeerAction {
    switch random.below(25) {
    case 0..<10: .accept(uniqueID: random.chance(1, in: 2), body: random.chance(1, in: 8))
    case 10: random.pick(documented)
    case 11: .reject(status: 418, reason: "SomethingNew", retryAfter: nil)
    case 12:
      .reject(
        status: random.pick([429, 503]),
        reason: random.pick([Reason.tooManyRequests, .serviceUnavailable]).text.description,
        retryAfter: random.pick([nil, "0", "1", "3", "90", "soon"]))
    case 13:
      .garbage(
        status: random.pick([400, 500, 502, 504]),
        body: random.pick(["", "<html>", "{", "null", "{\"reason\":7}", "[]"]))
    case 14: .headersOnly(status: random.pick([200, 400, 403, 500]))
    case 15: .half(status: random.pick([200, 400]))
    case 16: .reset(code: 7, isTaken: false)
    case 17: .reset(code: UInt32(random.below(14)), isTaken: random.chance(1, in: 2))
    case 18, 19: .ignore(isTaken: random.chance(1, in: 2))
    case 20, 21:
      .goAway(
        includesThis: random.chance(1, in: 2), isTaken: random.chance(1, in: 2),
        debug: random.pick(["", said(.shutdown), said(.idleTimeout), "x"]))
    case 22, 23: .cut(isTaken: random.chance(1, in: 2))
    default: .halfClose(isTaken: random.chance(1, in: 2))
    }
  }

  /// GOAWAY's debug data (Communicating with APNs).
  private static func said(_ reason: Reason) -> String { "{\"reason\":\"\(reason.text)\"}" }
}
