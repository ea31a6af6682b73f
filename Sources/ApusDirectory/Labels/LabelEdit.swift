package import ApusModel

/// A change to the name and the tags of one device.
package struct LabelEdit: Sendable {
  package enum NameChange: Sendable, Equatable {
    case keep
    case set(DeviceName)
    case remove
  }

  package var name = NameChange.keep
  /// Each in place of another value of its key.
  package var added: [DeviceTag] = []
  package var removedKeys: [String] = []

  package init() {}

  package var isEmpty: Bool { name == .keep && added.isEmpty && removedKeys.isEmpty }

  fileprivate func apply(to labels: inout DeviceLabels) throws(DirectoryProblem) {
    switch name {
    case .keep: break
    case .set(let new): labels.name = new
    case .remove: labels.name = nil
    }
    for key in removedKeys { labels.remove(key: key[...]) }
    for tag in added {
      guard labels.set(tag) else {
        throw DirectoryProblem("a device has at most \(Limits.tagsPerDevice) tags")
      }
    }
  }
}

extension LabelRegister {
  /// Changes the labels of a device, and returns the new ones.
  ///
  /// - Parameter isRetired: A retired device gives up its name to one that gets it.
  /// - Throws: ``DirectoryProblem`` if another device has the name, or the device would have too many tags.
  package func edit(
    _ device: DeviceID, _ edit: LabelEdit, isRetired: (DeviceID) -> Bool
  ) throws -> DeviceLabels {
    var new = DeviceLabels()
    try change { index in
      new = index.labels(of: device)
      let old = new
      try edit.apply(to: &new)
      guard new != old else { return [:] }
      var changes = [device: new]
      if let name = new.name, let holder = index.holder(of: name, besides: device) {
        guard isRetired(holder) else {
          throw DirectoryProblem("the device \(holder.text) has the name \"\(name.text)\"")
        }
        changes[holder] = index.labelsWithoutName(of: holder)
      }
      return changes
    }
    return new
  }
}
