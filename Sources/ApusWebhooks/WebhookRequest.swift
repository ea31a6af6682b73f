import ApusLog
import ApusWeb
import ApusWire

/// One request to a webhook's receiver: a batch of events.
struct WebhookRequest {
  /// The events in one request at most, and about how many bytes they have.
  static let eventLimit = 100
  static let byteLimit = 256 * 1024
  /// Seconds in which a receiver has to answer.
  static let timeoutSeconds = 15

  let webhook: Webhook
  /// JSON objects.
  private(set) var events: [[UInt8]]
  /// The number of the first event behind the batch.
  let end: UInt64

  /// - Parameter position: The first event that was not delivered; older ones than those of the page were dropped.
  init(_ webhook: Webhook, _ page: EventQueue.Page, position: UInt64, nowMilliseconds: Int64) {
    self.webhook = webhook
    end = page.first + UInt64(page.lines.count)
    events = page.lines.filter { Self.isWanted($0, by: webhook.events) }
    guard page.first > position else { return }
    let gap = Self.gap(
      milliseconds: nowMilliseconds,
      [.number("missed", page.first - position), .text("reason", "the queue was full")])
    events.insert(Array("{\"id\":\(page.first - 1),\(gap)}".utf8), at: 0)
  }

  /// A push of an operator who tests the webhook.
  init(testing webhook: Webhook, nowMilliseconds: Int64) {
    self.webhook = webhook
    end = 0
    let test = EventSink.text("test", milliseconds: nowMilliseconds, [])
    events = [Array("{\"id\":0,\(test)}".utf8)]
  }

  /// Events are missing; all webhooks are told.
  static func gap(milliseconds: Int64, _ fields: [Log.Field]) -> String {
    EventSink.text("gap", milliseconds: milliseconds, fields)
  }

  private static func isWanted(_ line: [UInt8], by kinds: EventKinds) -> Bool {
    // The number and the name come first.
    let text = String(decoding: line.prefix(80), as: UTF8.self)
    guard let start = text.firstRange(of: "\"event\":\"") else { return false }
    let name = text[start.upperBound...].prefix { $0 != "\"" }
    return EventKind(rawValue: String(name)).map(kinds.contains) ?? true
  }

  var body: [UInt8] {
    Array("{\"webhook\":\"\(webhook.name)\",\"events\":[".utf8)
      + events.joined(separator: [0x2c]) + Array("]}".utf8)
  }

  /// - Returns: Why it was not delivered; nil if the receiver answered with a status from 200 to 299.
  func send(nowSeconds: Int64) -> String? {
    let body = body
    var call = WebCall(.url(webhook.url, authorityFile: webhook.authorityFile), "POST", [])
    call.timeoutSeconds = Self.timeoutSeconds
    call.headers = [
      WebField(
        WebhookSignature.header,
        WebhookSignature.text(body: body, secrets: webhook.secrets, nowSeconds: nowSeconds)),
      WebField("user-agent", "apus"),
    ]
    call.body = body
    do throws(WebCall.Fault) {
      let answer = try call.perform()
      return 200...299 ~= answer.status ? nil : "the receiver answered \(answer.status)"
    } catch {
      return "\(error)"
    }
  }
}

extension Webhook {
  /// Sends an event of the kind `test`.
  ///
  /// - Returns: Why it was not delivered.
  package func test(nowMilliseconds: Int64) -> String? {
    WebhookRequest(testing: self, nowMilliseconds: nowMilliseconds)
      .send(nowSeconds: nowMilliseconds / 1000)
  }
}
