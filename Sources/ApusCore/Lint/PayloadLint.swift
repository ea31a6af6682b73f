package import ApusModel
import ApusWire

/// Checks a push against every rule of ``LintRule``.
///
/// It works on the bytes as sent, whatever created them. It builds a tree of the payload, so do not use it on hot
/// paths. Services accept most of the pushes that break a rule, and the device then drops them silently; the findings
/// make that visible.
package struct PayloadLint {
  let context: LintContext
  private(set) var findings: [LintFinding] = []

  /// The violations of a push, errors first; empty if there are none.
  package static func findings(
    in payload: Span<UInt8>, _ context: LintContext
  ) -> [LintFinding] {
    var lint = PayloadLint(context: context)
    lint.checkHeader()
    lint.check(payload)
    // A stable order, which keeps related findings together.
    let order: [LintRule.Severity] = [.error, .warning, .note]
    return order.flatMap { severity in lint.findings.filter { $0.severity == severity } }
  }

  private init(context: LintContext) { self.context = context }

  mutating func add(
    _ rule: LintRule, at place: String, _ problem: String, _ remedy: String
  ) {
    findings.append(LintFinding(rule, at: place, problem, remedy: remedy))
  }

  private mutating func check(_ payload: Span<UInt8>) {
    guard payload.count > 0 else {
      return add(
        .payloadEmpty, at: "payload", "is empty, which is rejected as \(Reason.payloadEmpty.text)",
        "Send a JSON object with aps.")
    }
    if payload.count > context.payloadLimit {
      add(
        .payloadTooLarge, at: "payload",
        "has \(payload.count) bytes, more than \(context.payloadLimit), and is rejected as "
          + "\(Reason.payloadTooLarge.text)", "Shorten the body, or let the app fetch the rest.")
    }
    let json: JSONValue
    do throws(JSONFault) {
      json = try JSONValue(parsing: payload)
    } catch {
      return add(
        .payloadNotJSON, at: "payload", "is not JSON: \(error)",
        "Build it with a JSON library, in UTF-8.")
    }
    guard let object = json.object else {
      return add(
        .payloadNotJSON, at: "payload", "is JSON, but not an object", "Send an object with aps.")
    }
    check(object)
  }

  private mutating func check(_ object: JSONObject) {
    checkRepeated(object, at: "payload")
    let aps = object["aps"]?.object
    if let aps {
      checkRepeated(aps, at: "aps")
      checkKeys(aps, LintKeys.aps, at: "aps")
      checkAlert(aps)
      checkValues(aps)
      checkPushType(aps)
    } else if object["mdm"] == nil || object["aps"] != nil {
      add(
        .apsMissing, at: "aps",
        object["aps"] == nil ? "is missing" : "is not an object",
        "Put the system's keys into an object called aps; it may be empty.")
    }
    checkOuterKeys(object, aps ?? JSONObject())
    checkManagement(object)
  }

  private mutating func checkRepeated(_ object: JSONObject, at place: String) {
    var seen: Set<String> = []
    for member in object.members where !seen.insert(member.key).inserted {
      add(
        .keyRepeated, at: "\(place).\(member.key)",
        "occurs twice, and parsers differ in which one they use", "Write it once.")
    }
  }

  // MARK: Header

  private mutating func checkHeader() {
    if context.pushType == nil {
      add(
        .pushTypeMissing, at: HeaderName.apnsPushType.text.description,
        "is missing, but watchOS 6 and later require it", "Set the push type.")
    }
    checkTopic()
    if let count = context.collapseIDByteCount, count > Limits.collapseIDBytes {
      add(
        .collapseIDTooLong, at: HeaderName.apnsCollapseID.text.description,
        "has \(count) bytes, more than \(Limits.collapseIDBytes), and is rejected as "
          + "\(Reason.badCollapseID.text)", "Shorten it, or use a hash of it.")
    }
    checkExpiration()
  }

  private mutating func checkTopic() {
    guard let type = context.pushType, let topic = context.topic else { return }
    let bytes = Array(topic.utf8)
    let suffix = TopicSuffix(of: bytes.span)
    guard suffix != type.topicSuffix else { return }
    let place = HeaderName.apnsTopic.text.description
    if type.topicSuffix != .none {
      add(
        .topicSuffix, at: place,
        "does not end in \(type.topicSuffix.text), as the topic of a push of type \(type.name) must",
        "Append \(type.topicSuffix.text) to the bundle id.")
    } else {
      add(
        .topicOfOtherType, at: place,
        "ends in \(suffix.text), which belongs to another push type than \(type.name)",
        "Use only the bundle id, or set the push type of the suffix.")
    }
  }

  private mutating func checkExpiration() {
    guard let expiration = context.expirationSeconds else { return }
    let place = HeaderName.apnsExpiration.text.description
    if LintKeys.areMilliseconds(expiration) {
      add(
        .millisecondsForSeconds, at: place,
        "is thousands of years ahead and looks like milliseconds", "Give Unix seconds.")
    } else if let now = context.nowSeconds, expiration != 0, expiration < now {
      add(
        .expirationPast, at: place, "is in the past, so there is one attempt and no storage",
        "Use a future time, or 0 for a single attempt.")
    }
  }
}
