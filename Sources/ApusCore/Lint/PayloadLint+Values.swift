import ApusModel
import ApusWire

// Values inside `aps` that do not have the intended effect.

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
        "has no effect without an alert with a title, a subtitle or a body",
        "Add an alert for the extension to change.")
    }
    for key in ["timestamp", "stale-date", "dismissal-date"] {
      guard let seconds = aps[key]?.number, seconds > 95_617_584_000 else { continue }
      add(
        .millisecondsForSeconds, at: "aps.\(key)",
        "is thousands of years ahead and looks like milliseconds", "Give Unix seconds.")
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
        "is \(String(decoding: value.bytes.prefix(20), as: UTF8.self)); only the number 1 has an effect",
        "Write 1, or remove it.")
    }
  }

  private mutating func checkBadge(_ aps: JSONObject) {
    guard let badge = aps["badge"]?.number else { return }
    guard badge < 0 || aps["badge"]?.integer == nil else { return }
    add(
      .badgeValue, at: "aps.badge", "is not a whole number of at least 0 and is ignored",
      "Write the number for the icon, or 0 to remove it.")
  }

  private mutating func checkSound(_ aps: JSONObject) {
    if aps["sound"]?.string == "" {
      add(
        .soundValue, at: "aps.sound", "is empty, so nothing is played",
        "Name a file or default, or remove it.")
    }
    guard let sound = aps["sound"]?.object else { return }
    checkKeys(sound, LintKeys.sound, at: "aps.sound")
    if let volume = sound["volume"]?.number, !(0...1).contains(volume) {
      add(
        .soundValue, at: "aps.sound.volume", "is not between 0 and 1",
        "Write a fraction of the full volume."
      )
    }
    if !sound.has("name") {
      add(
        .soundValue, at: "aps.sound.name", "is missing, so nothing is played",
        "Name a file or default.")
    }
    if sound.has("critical"), !sound.isOne("critical"), sound["critical"]?.number != 0 {
      add(
        .soundValue, at: "aps.sound.critical", "has an effect only as the number 1",
        "Write 1, or remove it.")
    }
  }

  private mutating func checkLevel(_ aps: JSONObject) {
    guard let level = aps["interruption-level"]?.string else { return }
    let place = "aps.interruption-level"
    let known = ["passive", "active", "time-sensitive", "critical"]
    guard known.contains(level) else {
      return add(
        .interruptionLevel, at: place, "is not one of \(known.joined(separator: ", "))",
        LintKeys.meant(by: level, among: known).map { "Write \($0)." }
          ?? "Remove it for active.")
    }
    if level == "passive", aps.has("sound") {
      add(
        .soundOfPassive, at: "aps.sound", "is not played: a passive notification is silent",
        "Remove it, or raise the interruption level.")
    }
    let isUrgent = level == "time-sensitive" || level == "critical"
    if isUrgent, context.effectivePriority != .immediate {
      add(
        .urgentPriority, at: HeaderName.apnsPriority.text.description,
        "lets the service delay a notification marked \(level)", "Send it with 10.")
    }
  }

  private mutating func checkScore(_ aps: JSONObject) {
    // "Starting and updating Live Activities with ActivityKit push notifications" allows any number.
    guard context.pushType != .liveactivity, let score = aps["relevance-score"]?.number,
      !(0...1).contains(score)
    else { return }
    add(
      .relevanceScore, at: "aps.relevance-score", "is not between 0 and 1",
      "Write a number from 0 to 1.")
  }
}
