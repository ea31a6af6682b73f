import ApusCore
import ApusDirectory
import ApusModel

// The names and tags that devices get when they enrol.

extension Enroller {
  func label(
    _ device: DeviceID, _ name: String, _ tags: [DeviceTag], _ trust: Trust
  ) throws {
    try labels.enrol(device, name: Self.label(name), tags: tags) {
      trust.directory.retiredMilliseconds(of: $0) != nil
    }
  }

  /// The name by which operators know the device; nil for one that did not say its name.
  static func label(_ name: String) -> DeviceName? {
    name == DeviceName.unnamed ? nil : DeviceName(name)
  }

  /// Nil if one is malformed.
  static func tags(_ texts: [[UInt8]]) -> [DeviceTag]? {
    var tags: [DeviceTag] = []
    for bytes in texts {
      guard let tag = String(validating: bytes, as: UTF8.self).flatMap(DeviceTag.init) else {
        return nil
      }
      tags.append(tag)
    }
    return tags
  }
}

extension EnrolmentCodes.Record {
  /// The code's, and those of the device that the code permits and that take no key of the code's.
  func tags(with own: [DeviceTag]) -> [DeviceTag] {
    guard allowsOwnTags else { return tags }
    let keys = Set(tags.map(\.key))
    return tags + own.filter { !keys.contains($0.key) }
  }
}

extension LabelRegister {
  /// Names and tags a device that has enrolled. If another device has the name, it gets the next free one; a retired
  /// device gives up its name. Of too many tags the first ones count.
  func enrol(
    _ device: DeviceID, name: DeviceName?, tags: [DeviceTag], isRetired: (DeviceID) -> Bool
  ) throws {
    guard name != nil || !tags.isEmpty else { return }
    try change { index in
      var new = index.labels(of: device)
      var changes: [DeviceID: DeviceLabels] = [:]
      if let name {
        if let holder = index.holder(of: name, besides: device), isRetired(holder) {
          changes[holder] = index.labelsWithoutName(of: holder)
          new.name = name
        } else {
          new.name = index.freeName(like: name, for: device)
        }
      }
      for tag in tags { _ = new.set(tag) }
      changes[device] = new
      return changes
    }
  }
}
