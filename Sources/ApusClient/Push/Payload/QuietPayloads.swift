public import ApusModel
import ApusWire

// Payloads for an app or a part of the system, not for a person.

/// Wakes an app in the background: `content-available` without anything that can be seen or heard.
///
/// Only priority 5, and at most two or three an hour. Source: Pushing background updates to your App.
public struct BackgroundPayload: PushPayload, Hashable {
  /// The app's own keys, next to `aps`.
  public var custom: CustomKeys

  public init(custom: CustomKeys = CustomKeys()) { self.custom = custom }

  public var pushType: PushType { .background }
  public var priority: Priority? { .powerSaving }

  public var bytes: [UInt8] {
    var writer = PayloadWriter()
    writer.put("content-available", flag: true)
    return writer.end(custom)
  }
}

/// An incoming call. The system shows nothing of the payload: all keys are the app's.
///
/// Never stored, since a call must not ring later. Source: Responding to VoIP notifications from PushKit.
public struct VoIPPayload: PushPayload, Hashable {
  /// The app's own keys, next to `aps`.
  public var custom: CustomKeys

  public init(custom: CustomKeys = CustomKeys()) { self.custom = custom }

  public var pushType: PushType { .voip }
  public var expirationSeconds: Int64? { 0 }

  public var bytes: [UInt8] {
    var writer = PayloadWriter()
    return writer.end(custom)
  }
}

/// An update for a Push to Talk channel: priority 10 and expiration 0. Source: Push to Talk.
public struct PushToTalkPayload: PushPayload, Hashable {
  /// Whether this concerns the state of the service, not a speaker: the device then need not play anything.
  public var isServiceUpdate: Bool
  /// The app's own keys, next to `aps`.
  public var custom: CustomKeys

  public init(isServiceUpdate: Bool = false, custom: CustomKeys = CustomKeys()) {
    self.isServiceUpdate = isServiceUpdate
    self.custom = custom
  }

  public var pushType: PushType { .pushtotalk }
  public var priority: Priority? { .immediate }
  public var expirationSeconds: Int64? { 0 }

  public var bytes: [UInt8] {
    var writer = PayloadWriter()
    writer.put("ptt-push-type", isServiceUpdate ? "service-update" : nil)
    return writer.end(custom)
  }
}

/// Asks for the device's position through the app's location push service extension.
public struct LocationPayload: PushPayload, Hashable {
  /// The app's own keys, next to `aps`.
  public var custom: CustomKeys

  public init(custom: CustomKeys = CustomKeys()) { self.custom = custom }

  public var pushType: PushType { .location }

  public var bytes: [UInt8] {
    var writer = PayloadWriter()
    return writer.end(custom)
  }
}

/// Updates a watch complication.
public struct ComplicationPayload: PushPayload, Hashable {
  /// The app's own keys, next to `aps`.
  public var custom: CustomKeys

  public init(custom: CustomKeys = CustomKeys()) { self.custom = custom }

  public var pushType: PushType { .complication }

  public var bytes: [UInt8] {
    var writer = PayloadWriter()
    return writer.end(custom)
  }
}

/// Tells a File Provider extension that something changed. Source: Using push notifications to signal changes.
public struct FileProviderPayload: PushPayload, Hashable {
  /// The container that changed.
  public var containerIdentifier: String?
  /// The domain's identifier.
  public var domain: String?
  /// The app's own keys, next to `aps`.
  public var custom: CustomKeys

  public init(
    containerIdentifier: String? = nil, domain: String? = nil, custom: CustomKeys = CustomKeys()
  ) {
    self.containerIdentifier = containerIdentifier
    self.domain = domain
    self.custom = custom
  }

  public var pushType: PushType { .fileprovider }

  public var bytes: [UInt8] {
    var writer = PayloadWriter()
    writer.json.endObject()
    writer.put("container-identifier", containerIdentifier)
    writer.put("domain", domain)
    EncodedValue.write(custom.members, to: &writer.json)
    writer.json.endObject()
    return writer.json.bytes
  }
}

/// Makes a managed device contact its server. The only key is `mdm`; there is no `aps`.
///
/// The topic is that of the server's push certificate, without a suffix.
public struct MDMPayload: PushPayload, Hashable {
  /// The `PushMagic` string that the device sent when it enrolled.
  public var pushMagic: String

  public init(pushMagic: String) { self.pushMagic = pushMagic }

  public var pushType: PushType { .mdm }

  public var bytes: [UInt8] {
    var json = JSONWriter()
    json.beginObject()
    json.key("mdm")
    json.string(pushMagic)
    json.endObject()
    return json.bytes
  }
}

/// Makes an app's widgets reload their timelines. Source: Updating widgets with WidgetKit push notifications.
public struct WidgetsPayload: PushPayload, Hashable {
  public init() {}

  public var pushType: PushType { .widgets }
  public var bytes: [UInt8] { contentChanged() }
}

/// Makes an app's controls reload their state. Same source.
public struct ControlsPayload: PushPayload, Hashable {
  public init() {}

  public var pushType: PushType { .controls }
  public var bytes: [UInt8] { contentChanged() }
}

private func contentChanged() -> [UInt8] {
  var writer = PayloadWriter()
  writer.put("content-changed", .bool(true))
  return writer.end(CustomKeys())
}
