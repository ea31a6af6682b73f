import ApusModel
import ApusWire

// What a push says it is, against what it carries.

extension PayloadLint {
  mutating func checkPushType(_ aps: JSONObject) {
    if context.pushType != .liveactivity { checkForeignKeys(aps) }
    switch context.pushType {
    case .alert: checkVisible(aps)
    case .background: checkBackground(aps)
    case .liveactivity: checkLiveActivity(aps)
    case .widgets, .controls: checkContentChanged(aps)
    case .pushtotalk: checkPushToTalk(aps)
    case .voip: checkVoIP(aps)
    case .location, .fileprovider, .complication: checkShownByApp(aps)
    case .mdm: break
    case nil: if context.effectivePriority == .immediate { checkVisible(aps) }
    }
  }

  mutating func checkManagement(_ object: JSONObject) {
    if context.pushType == .mdm, object["mdm"]?.string == nil {
      add(
        .mdmKey, at: "mdm", "is missing, so that the device does not call its server",
        "Send {\"mdm\":\"the device's push magic\"}.")
    } else if let type = context.pushType, type != .mdm, object.has("mdm"), object["aps"] == nil {
      add(
        .mdmKey, at: HeaderName.apnsPushType.text.description,
        "is \(type.name), and the payload is one for a managed device",
        "Name the type \(PushType.mdm.name).")
    }
  }

  private mutating func checkVisible(_ aps: JSONObject) {
    guard !aps.isVisible else { return }
    if aps.has("content-available") {
      add(
        .alertInvisible, at: "aps",
        "has content-available alone, which with priority 10 or without the type "
          + "\(PushType.background.name) is accepted and dropped",
        "Send it as \(PushType.background.name), with priority 5.")
    } else if context.pushType == .alert {
      add(
        .alertInvisible, at: "aps", "has neither alert nor badge nor sound: nothing is seen of it",
        "Add an alert, or name the kind of push that it is.")
    }
  }

  // MARK: Background

  private mutating func checkBackground(_ aps: JSONObject) {
    if context.effectivePriority != .powerSaving {
      let priority =
        context.priority == nil ? "10 by default" : "\(context.effectivePriority.rawValue)"
      add(
        .backgroundPriority, at: HeaderName.apnsPriority.text.description,
        "is \(priority): a background push is refused with it, or accepted and dropped",
        "Send it with 5.")
    }
    if !aps.isOne("content-available") {
      add(
        .backgroundNotSilent, at: "aps.content-available",
        "is missing, so that the app is not woken", "Add \"content-available\":1 to aps.")
    }
    for key in ["alert", "badge", "sound"] where aps.has(key) {
      add(
        .backgroundVisible, at: "aps.\(key)",
        "does not belong into a background push, which may be delayed or dropped for it",
        "Leave it out, or send the push as \(PushType.alert.name).")
    }
  }

  // MARK: Kinds that show nothing by themselves

  private mutating func checkShownByApp(_ aps: JSONObject) {
    guard let type = context.pushType else { return }
    for key in ["alert", "badge", "sound"] where aps.has(key) {
      add(
        .shownByApp, at: "aps.\(key)",
        "is not shown: a push of type \(type.name) goes to the app and not to the person",
        "Put what the app needs beside aps.")
    }
  }

  private mutating func checkVoIP(_ aps: JSONObject) {
    checkShownByApp(aps)
    if context.expirationSeconds != 0 {
      add(
        .voipStored, at: HeaderName.apnsExpiration.text.description,
        "lets the service keep a call for a device that is away, and ring later",
        "Send it with 0, or a few seconds from now.")
    }
  }

  private mutating func checkPushToTalk(_ aps: JSONObject) {
    checkShownByApp(aps)
    if context.effectivePriority != .immediate {
      add(
        .pushToTalkHeaders, at: HeaderName.apnsPriority.text.description,
        "lets the service delay what somebody is saying now", "Send it with 10.")
    }
    if context.expirationSeconds != 0 {
      add(
        .pushToTalkHeaders, at: HeaderName.apnsExpiration.text.description,
        "is not 0, so that it may come when nobody speaks any more", "Send it with 0.")
    }
  }

  private mutating func checkContentChanged(_ aps: JSONObject) {
    checkShownByApp(aps)
    guard aps["content-changed"]?.bool != true else { return }
    add(
      .contentChanged, at: "aps.content-changed", "is not true, so that nothing is loaded anew",
      "Add \"content-changed\":true to aps.")
  }

  // MARK: Live Activities

  private mutating func checkForeignKeys(_ aps: JSONObject) {
    guard let type = context.pushType else { return }
    for member in aps.members where LintKeys.liveActivity.contains(member.key) {
      add(
        .liveActivityKey, at: "aps.\(member.key)",
        "is a key of Live Activities, and ignored in a push of type \(type.name)",
        "Name the type \(PushType.liveactivity.name), or leave it out.")
    }
  }

  private mutating func checkLiveActivity(_ aps: JSONObject) {
    if aps["timestamp"]?.number == nil {
      add(
        .liveActivityTimestamp, at: "aps.timestamp",
        "is missing, so that the device cannot tell new from old and ignores the push",
        "Give the Unix seconds of now.")
    }
    let event = aps["event"]?.string
    guard let event, ["start", "update", "end"].contains(event) else {
      return add(
        .liveActivityEvent, at: "aps.event", "is none of start, update and end",
        "Say what happens to the activity.")
    }
    if event != "end", !aps.has("content-state") {
      add(
        .liveActivityState, at: "aps.content-state", "is missing: there is nothing to show",
        "Give what the app's ContentState decodes from.")
    }
    if event == "start" {
      for key in ["attributes-type", "attributes", "alert"] where !aps.has(key) {
        add(
          .liveActivityStart, at: "aps.\(key)", "is missing, and no activity starts without it",
          "Add it.")
      }
    }
    if event != "end", aps.has("dismissal-date") {
      add(
        .liveActivityDismissal, at: "aps.dismissal-date", "counts only where event is end",
        "Leave it out, or end the activity.")
    }
  }
}
