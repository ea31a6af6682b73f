package import ApusModel
import ApusWire

/// The header fields of a push whose payload is checked. Nil means that the field is absent.
package struct LintContext: Sendable, Hashable {
  package var pushType: PushType?
  package var topic: String?
  package var priority: Priority?
  /// Unix seconds.
  package var expirationSeconds: Int64?
  package var collapseIDByteCount: Int?
  /// Whether the push goes to a channel.
  package var isBroadcast = false
  /// The current time in Unix seconds; if nil, times are not compared with it.
  package var nowSeconds: Int64?

  package init(
    pushType: PushType? = nil, topic: String? = nil, priority: Priority? = nil,
    expirationSeconds: Int64? = nil, collapseIDByteCount: Int? = nil, nowSeconds: Int64? = nil
  ) {
    self.pushType = pushType
    self.topic = topic
    self.priority = priority
    self.expirationSeconds = expirationSeconds
    self.collapseIDByteCount = collapseIDByteCount
    self.nowSeconds = nowSeconds
  }

  /// The fields of a received request. An unreadable value counts as absent: the request is rejected anyway.
  package init(_ fields: borrowing RequestFields, nowSeconds: Int64? = nil) {
    self.init(nowSeconds: nowSeconds)
    pushType = PushType(headerValue: fields.value(.apnsPushType))
    if fields.contains(.apnsTopic) { topic = fields.value(.apnsTopic).text }
    priority = DecimalInteger.parse(fields.value(.apnsPriority)).flatMap(UInt8.init(exactly:))
      .flatMap(Priority.init)
    expirationSeconds = DecimalInteger.parse(fields.value(.apnsExpiration))
    if fields.contains(.apnsCollapseID) {
      collapseIDByteCount = fields.value(.apnsCollapseID).count
    }
  }

  /// "Sending notification requests to APNs": 10 if the field is absent.
  var effectivePriority: Priority { priority ?? .immediate }

  var payloadLimit: Int {
    if isBroadcast { return Limits.broadcastPayloadBytes }
    return pushType == .voip ? Limits.voipPayloadBytes : Limits.payloadBytes
  }
}
