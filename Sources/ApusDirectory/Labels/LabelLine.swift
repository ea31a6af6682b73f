import ApusModel

/// A line of the file of names and tags: device, name and tags, separated by tabs.
///
/// ```
/// 0123456789abcdef	kitchen	floor=2	room=north
/// ```
///
/// The last line of a device counts. One without name and tags takes away what the device had.
struct LabelLine: Equatable {
  var device: DeviceID
  var labels: DeviceLabels

  init(_ device: DeviceID, _ labels: DeviceLabels) {
    self.device = device
    self.labels = labels
  }

  /// Nil if it is malformed.
  init?(_ text: Substring) {
    let fields = text.split(separator: "\t", omittingEmptySubsequences: false)
    guard fields.count >= 2, let device = DeviceID(text: String(fields[0])) else { return nil }
    let name = DeviceName(String(fields[1]))
    let tags = fields.dropFirst(2).compactMap { DeviceTag(String($0)) }
    guard name != nil || fields[1].isEmpty, tags.count == fields.count - 2,
      let labels = DeviceLabels(name: name, tags: tags)
    else { return nil }
    self.init(device, labels)
  }

  /// With the end of the line.
  var text: String {
    ([device.text, labels.name?.text ?? ""] + labels.tags.map(\.text))
      .joined(separator: "\t") + "\n"
  }
}
