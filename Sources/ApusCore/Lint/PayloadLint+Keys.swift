import ApusModel
import ApusWire

// Keys that nothing reads, and values of the wrong kind.

extension PayloadLint {
  /// Checks the members of a system object against its known keys.
  mutating func checkKeys(
    _ object: JSONObject, _ known: [String: [LintKeys.Kind]], at place: String
  ) {
    for member in object.members {
      let path = "\(place).\(member.key)"
      if let kinds = known[member.key] {
        checkType(member.value, kinds, at: path)
      } else if let meant = LintKeys.meant(by: member.key, among: known.keys) {
        add(
          .keyMisspelt, at: path, "is not a key that the system reads; \(meant) is",
          "Rename it to \(meant).")
      } else if place == "aps", LintKeys.alert[member.key] != nil {
        add(
          .keyOutsideAlert, at: path, "is read only inside aps.alert and ignored here",
          "Move it into aps.alert.")
      } else {
        add(
          .keyUnknown, at: path, "is not a known key and is ignored",
          "Put the app's own keys outside aps.")
      }
    }
  }

  private mutating func checkType(
    _ value: JSONValue, _ kinds: [LintKeys.Kind], at path: String
  ) {
    guard let kind = LintKeys.Kind(value), !kinds.contains(kind) else { return }
    // The check of a flag's value reports its kind.
    guard !LintFlags.all.contains(where: { path == "aps.\($0)" }) else { return }
    let wanted = kinds.map(\.rawValue).joined(separator: " or ")
    let found = kind == .other ? "another type" : kind.rawValue
    add(.valueType, at: path, "is \(found) and is ignored", "Write \(wanted).")
  }

  /// Finds system keys among the app's keys.
  mutating func checkOuterKeys(_ object: JSONObject, _ aps: JSONObject) {
    for member in object.members where member.key != "aps" {
      if LintKeys.unmistakable.contains(member.key) {
        guard aps[member.key] == nil else { continue }
        add(
          .keyOutsideAPS, at: member.key, "is outside aps, where the system does not read it",
          "Move it into aps.")
      } else if LintKeys.meant(by: member.key, among: ["aps"]) != nil {
        add(
          .keyMisspelt, at: member.key, "is not a key that the system reads; aps is", "Call it aps."
        )
      }
    }
  }

  // MARK: Alert

  mutating func checkAlert(_ aps: JSONObject) {
    switch aps.present("alert") {
    case .string("")?:
      add(.alertEmpty, at: "aps.alert", "is empty, so nothing is shown", "Give it a text.")
    case .object(let alert)?:
      checkRepeated(of: alert)
      var known = LintKeys.alert
      if context.pushType == .liveactivity {
        known.merge(LintKeys.liveActivityAlert) { _, special in special }
      }
      checkKeys(alert, known, at: "aps.alert")
      checkText(alert)
      checkArguments(alert)
    default: break
    }
  }

  private mutating func checkRepeated(of alert: JSONObject) {
    var seen: Set<String> = []
    for member in alert.members where !seen.insert(member.key).inserted {
      add(
        .keyRepeated, at: "aps.alert.\(member.key)",
        "occurs twice, and parsers differ in which one they use", "Write it once.")
    }
  }

  private mutating func checkText(_ alert: JSONObject) {
    let texts = ["title", "subtitle", "body", "title-loc-key", "subtitle-loc-key", "loc-key"]
    let isShown = texts.contains { key in
      guard let value = alert.present(key) else { return false }
      return value.string != ""
    }
    guard !isShown else { return }
    add(
      .alertEmpty, at: "aps.alert", "has neither a title nor a body, so nothing is shown",
      "Give it a body.")
  }

  private mutating func checkArguments(_ alert: JSONObject) {
    for prefix in ["", "title-", "subtitle-"] {
      let (key, arguments) = ("\(prefix)loc-key", "\(prefix)loc-args")
      guard alert.has(arguments), !alert.has(key) else { continue }
      add(
        .argumentsWithoutKey, at: "aps.alert.\(arguments)",
        "is used only together with \(key), which is missing", "Add \(key), or write out the text.")
    }
  }
}

/// Keys whose only meaningful value is the number 1.
enum LintFlags {
  static let all = ["content-available", "mutable-content", "input-push-token"]
}
