package import ApusModel
import ApusWire

/// Holds a push against every rule of ``LintRule``.
///
/// Works on the bytes that are sent, whoever made them. Not for hot paths: it builds the payload's tree. Services
/// accept most of what is found here, and the device then drops it without a word; that is why it is said.
package struct PayloadLint {
  let context: LintContext
  private(set) var findings: [LintFinding] = []

  /// What is wrong with a push, what a service refuses first; empty where nothing is.
  package static func findings(
    in payload: Span<UInt8>, _ context: LintContext
  ) -> [LintFinding] {
    var lint = PayloadLint(context: context)
    lint.checkHeader()
    lint.check(payload)
    // A stable order in which like stays beside like.
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
        .payloadEmpty, at: "payload", "is empty, which is refused with \(Reason.payloadEmpty.text)",
        "Send a JSON object with aps.")
    }
    if payload.count > context.payloadLimit {
      add(
        .payloadTooLarge, at: "payload",
        "has \(payload.count) bytes of \(context.payloadLimit), and is refused with "
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
        "Put the keys of the system into an object called aps; it may be empty.")
    }
    checkOuterKeys(object, aps ?? JSONObject())
    checkManagement(object)
  }

  private mutating func checkRepeated(_ object: JSONObject, at place: String) {
    var seen: Set<String> = []
    for member in object.members where !seen.insert(member.key).inserted {
      add(
        .keyRepeated, at: "\(place).\(member.key)",
        "stands there twice, and readers differ in which one they take", "Write it once.")
    }
  }

  // MARK: Header

  private mutating func checkHeader() {
    if context.pushType == nil {
      add(
        .pushTypeMissing, at: HeaderName.apnsPushType.text.description,
        "is missing, which watchOS 6 and later need", "Name the kind of push.")
    }
    checkTopic()
    if let count = context.collapseIDByteCount, count > Limits.collapseIDBytes {
      add(
        .collapseIDTooLong, at: HeaderName.apnsCollapseID.text.description,
        "has \(count) bytes of \(Limits.collapseIDBytes), and is refused with "
          + "\(Reason.badCollapseID.text)", "Shorten it, or hash what it is made of.")
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
        "does not end in \(type.topicSuffix.text), as that of a push of type \(type.name) must",
        "Send to the bundle id with \(type.topicSuffix.text) behind it.")
    } else {
      add(
        .topicOfOtherType, at: place,
        "ends in \(suffix.text), which belongs to another kind of push than \(type.name)",
        "Send to the bundle id alone, or name the kind that the suffix stands for.")
    }
  }

  private mutating func checkExpiration() {
    guard let expiration = context.expirationSeconds else { return }
    let place = HeaderName.apnsExpiration.text.description
    if LintKeys.areMilliseconds(expiration) {
      add(
        .millisecondsForSeconds, at: place,
        "lies thousands of years ahead: it looks like milliseconds", "Give Unix seconds.")
    } else if let now = context.nowSeconds, expiration != 0, expiration < now {
      add(
        .expirationPast, at: place, "is in the past: there is one attempt, and nothing is kept",
        "Give a time to come, or 0 where one attempt is meant.")
    }
  }
}
