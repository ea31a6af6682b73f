import ApusModel
import ApusWire

// Values inside `aps` that do not do what they say.

extension PayloadLint {
  mutating func checkValues(_ aps: JSONObject) {
    checkFlags(aps)
    checkBadge(aps)
    checkSound(aps)
    checkLevel(aps)
    checkScore(aps)
    if aps.isOne("mutable-content"), !Self.hasText(aps) {
      add(
        .mutableWithoutAlert, at: "aps.mutable-content",
        "does nothing without an alert with a title, a subtitle or a body",
        "Add an alert, which the extension may change.")
    }
    for key in ["timestamp", "stale-date", "dismissal-date"] {
      guard let seconds = aps[key]?.number, seconds > 95_617_584_000 else { continue }
      add(
        .millisecondsForSeconds, at: "aps.\(key)",
        "lies thousands of years ahead: it looks like milliseconds", "Give Unix seconds.")
    }
  }

  private static func hasText(_ aps: JSONObject) -> Bool {
    switch aps.present("alert") {
    case .string(let text)?: !text.isEmpty
    case .object(let alert)?: !alert.members.isEmpty
    default: false
    }
  }

  private mutating func checkFlags(_ aps: JSONObject) {
    for key in LintFlags.all {
      guard let value = aps.present(key), value.number != 1 else { continue }
      add(
        .flagNotOne, at: "aps.\(key)",
        "is \(String(decoding: value.bytes.prefix(20), as: UTF8.self)), and counts only as the number 1",
        "Write 1, or leave it out.")
    }
  }

  private mutating func checkBadge(_ aps: JSONObject) {
    guard let badge = aps["badge"]?.number else { return }
    guard badge < 0 || aps["badge"]?.integer == nil else { return }
    add(
      .badgeValue, at: "aps.badge", "is no whole number from 0 on, and is ignored",
      "Write the number on the icon, or 0 to take it away.")
  }

  private mutating func checkSound(_ aps: JSONObject) {
    if aps["sound"]?.string == "" {
      add(
        .soundValue, at: "aps.sound", "is empty, and plays nothing",
        "Name a file or default, or leave it out.")
    }
    guard let sound = aps["sound"]?.object else { return }
    checkKeys(sound, LintKeys.sound, at: "aps.sound")
    if let volume = sound["volume"]?.number, !(0...1).contains(volume) {
      add(
        .soundValue, at: "aps.sound.volume", "is not between 0 and 1", "Give a part of full volume."
      )
    }
    if !sound.has("name") {
      add(
        .soundValue, at: "aps.sound.name", "is missing, so that nothing is played",
        "Name a file, or default.")
    }
    if sound.has("critical"), !sound.isOne("critical"), sound["critical"]?.number != 0 {
      add(
        .soundValue, at: "aps.sound.critical", "counts only as the number 1",
        "Write 1, or leave it out.")
    }
  }

  private mutating func checkLevel(_ aps: JSONObject) {
    guard let level = aps["interruption-level"]?.string else { return }
    let place = "aps.interruption-level"
    let known = ["passive", "active", "time-sensitive", "critical"]
    guard known.contains(level) else {
      return add(
        .interruptionLevel, at: place, "is none of \(known.joined(separator: ", "))",
        LintKeys.meant(by: level, among: known).map { "Write \($0)." }
          ?? "Leave it out for active.")
    }
    if level == "passive", aps.has("sound") {
      add(
        .soundOfPassive, at: "aps.sound", "is not played, as a passive notification makes no noise",
        "Leave it out, or raise the interruption level.")
    }
    let isUrgent = level == "time-sensitive" || level == "critical"
    if isUrgent, context.effectivePriority != .immediate {
      add(
        .urgentPriority, at: HeaderName.apnsPriority.text.description,
        "lets the service delay a notification that says it is \(level)", "Send it with 10.")
    }
  }

  private mutating func checkScore(_ aps: JSONObject) {
    // "Starting and updating Live Activities": any number there.
    guard context.pushType != .liveactivity, let score = aps["relevance-score"]?.number,
      !(0...1).contains(score)
    else { return }
    add(
      .relevanceScore, at: "aps.relevance-score", "is not between 0 and 1", "Give a part of 1.")
  }
}
