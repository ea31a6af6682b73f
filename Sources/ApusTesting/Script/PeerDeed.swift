import ApusModel

/// What a scripted service does about one request that it has whole.
package enum PeerDeed: Sendable, Hashable {
  /// 200: the service has taken the notification on. Services send `apns-unique-id` sometimes, and a body never; some
  /// proxies do.
  case accept(uniqueID: Bool, body: Bool)
  /// An answer of the service's own: a status with a reason, and with 410 a time.
  case reject(status: Int, reason: String, retryAfter: String?)
  /// An answer with a body that is no reason.
  case garbage(status: Int, body: String)
  /// An answer that is its header fields alone.
  case headersOnly(status: Int)
  /// The header fields of an answer without its end, which never comes.
  case half(status: Int)
  /// RST_STREAM. REFUSED_STREAM (7) says that nothing was done; with any other code the service may have taken the
  /// notification on.
  case reset(code: UInt32, isTaken: Bool)
  /// No answer.
  case ignore(isTaken: Bool)
  /// GOAWAY with this stream as the last one, or with the one before it; `isTaken` holds for the former.
  case goAway(includesThis: Bool, isTaken: Bool, debug: String)
  /// The end of the connection. What was said before it may get lost, too.
  case cut(isTaken: Bool)
  /// The end of what the service says, behind all that it said, without GOAWAY; what the client still sends is read.
  case halfClose(isTaken: Bool)

  /// Each reason that is documented, with its status.
  package static let documented: [PeerDeed] = Reason.allCases.map {
    .reject(status: Int($0.status), reason: $0.text.description, retryAfter: nil)
  }

  /// One of all kinds.
  package static func random(_ random: inout SeededRandom) -> PeerDeed {
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

  /// GOAWAY's debug data. "Communicating with APNs".
  private static func said(_ reason: Reason) -> String { "{\"reason\":\"\(reason.text)\"}" }
}
