import ApusModel
import ApusWire

// The push type against the content.

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
        .mdmKey, at: "mdm", "is missing, so the device does not contact its server",
        "Send {\"mdm\":\"the device's push magic\"}.")
    } else if let type = context.pushType, type != .mdm, object.has("mdm"), object["aps"] == nil {
      add(
        .mdmKey, at: HeaderName.apnsPushType.text.description,
        "is \(type.name), but the payload is for a managed device",
        "Set the type to \(PushType.mdm.name).")
    }
  }

  private mutating func checkVisible(_ aps: JSONObject) {
    guard !aps.isVisible else { return }
    if aps.has("content-available") {
      add(
        .alertInvisible, at: "aps",
        "has only content-available, which with priority 10 or without the type "
          + "\(PushType.background.name) is accepted and dropped",
        "Send it as \(PushType.background.name), with priority 5.")
    } else if context.pushType == .alert {
      add(
        .alertInvisible, at: "aps",
        "has neither alert nor badge nor sound, so the user notices nothing",
        "Add an alert, or set another push type.")
    }
  }

  // MARK: Background

  private mutating func checkBackground(_ aps: JSONObject) {
    if context.effectivePriority != .powerSaving {
      let priority =
        context.priority == nil ? "10 by default" : "\(context.effectivePriority.rawValue)"
      add(
        .backgroundPriority, at: HeaderName.apnsPriority.text.description,
        "is \(priority): a background push with it is rejected, or accepted and dropped",
        "Send it with 5.")
    }
    if !aps.isOne("content-available") {
      add(
        .backgroundNotSilent, at: "aps.content-available",
        "is missing, so the app is not woken", "Add \"content-available\":1 to aps.")
    }
    for key in ["alert", "badge", "sound"] where aps.has(key) {
      add(
        .backgroundVisible, at: "aps.\(key)",
        "does not belong in a background push and may get it delayed or dropped",
        "Remove it, or send the push as \(PushType.alert.name).")
    }
  }

  // MARK: Kinds that show nothing by themselves

  private mutating func checkShownByApp(_ aps: JSONObject) {
    guard let type = context.pushType else { return }
    for key in ["alert", "badge", "sound"] where aps.has(key) {
      add(
        .shownByApp, at: "aps.\(key)",
        "is not shown: a push of type \(type.name) goes to the app, not to the user",
        "Put the app's data outside aps.")
    }
  }

  private mutating func checkVoIP(_ aps: JSONObject) {
    checkShownByApp(aps)
    if context.expirationSeconds != 0 {
      add(
        .voipStored, at: HeaderName.apnsExpiration.text.description,
        "lets the service store a call for an offline device, which then rings too late",
        "Send it with 0, or a few seconds from now.")
    }
  }

  private mutating func checkPushToTalk(_ aps: JSONObject) {
    checkShownByApp(aps)
    if context.effectivePriority != .immediate {
      add(
        .pushToTalkHeaders, at: HeaderName.apnsPriority.text.description,
        "lets the service delay live speech", "Send it with 10.")
    }
    if context.expirationSeconds != 0 {
      add(
        .pushToTalkHeaders, at: HeaderName.apnsExpiration.text.description,
        "is not 0, so it may arrive after the speaker has stopped", "Send it with 0.")
    }
  }

  private mutating func checkContentChanged(_ aps: JSONObject) {
    checkShownByApp(aps)
    guard aps["content-changed"]?.bool != true else { return }
    add(
      .contentChanged, at: "aps.content-changed", "is not true, so nothing is reloaded",
      "Add \"content-changed\":true to aps.")
  }

  // MARK: Live Activities

  private mutating func checkForeignKeys(_ aps: JSONObject) {
    guard let type = context.pushType else { return }
    for member in aps.members where LintKeys.liveActivity.contains(member.key) {
      add(
        .liveActivityKey, at: "aps.\(member.key)",
        "is a key of Live Activities, and ignored in a push of type \(type.name)",
        "Set the type to \(PushType.liveactivity.name), or remove it.")
    }
  }

  private mutating func checkLiveActivity(_ aps: JSONObject) {
    if aps["timestamp"]?.number == nil {
      add(
        .liveActivityTimestamp, at: "aps.timestamp",
        "is missing, so the device cannot tell new from old and ignores the push",
        "Set it to the current time in Unix seconds.")
    }
    let event = aps["event"]?.string
    guard let event, ["start", "update", "end"].contains(event) else {
      return add(
        .liveActivityEvent, at: "aps.event", "is not start, update or end",
        "Set it to the event of the activity.")
    }
    if event != "end", !aps.has("content-state") {
      add(
        .liveActivityState, at: "aps.content-state", "is missing, so there is nothing to show",
        "Add the JSON that the app's ContentState decodes.")
    }
    if event == "start", context.isBroadcast {
      add(
        .liveActivityEvent, at: "aps.event", "is start, and a broadcast cannot start an activity",
        "Send the start to each device, and update or end on the channel.")
    } else if event == "start" {
      for key in ["attributes-type", "attributes", "alert"] where !aps.has(key) {
        add(
          .liveActivityStart, at: "aps.\(key)",
          "is missing, and the activity cannot start without it",
          "Add it.")
      }
    }
    if event != "end", aps.has("dismissal-date") {
      add(
        .liveActivityDismissal, at: "aps.dismissal-date", "has an effect only if event is end",
        "Remove it, or end the activity.")
    }
  }
}
