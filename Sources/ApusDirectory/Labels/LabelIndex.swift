package import ApusModel

/// The names and tags of all devices, in memory.
///
/// A device's tag takes 12 bytes, in two arrays that are sorted by device. Changes come in batches, each of which
/// writes the arrays anew; looking for a tag reads them once. Both take about a millisecond for a million tags, and
/// nothing that delivers notifications reads them.
package struct LabelIndex: Sendable {
  private var names: [DeviceID: DeviceName] = [:]
  private var holders: [DeviceName: DeviceID] = [:]
  /// The device of each tag, sorted, and the tag's number at the same place.
  private var owners: [UInt64] = []
  private var numbers: [UInt32] = []
  private var tags = TagTable()

  package init() {}

  // MARK: One device

  package func name(of device: DeviceID) -> DeviceName? { names[device] }

  package func labels(of device: DeviceID) -> DeviceLabels {
    var place = firstPlace(of: device.rawValue)
    var found: [DeviceTag] = []
    while place < owners.count, owners[place] == device.rawValue {
      found.append(tags[numbers[place]])
      place += 1
    }
    return DeviceLabels(name: names[device], tags: found) ?? DeviceLabels(name: names[device])
  }

  package func device(named name: DeviceName) -> DeviceID? { holders[name] }

  /// The other device that has the name; nil if none has.
  package func holder(of name: DeviceName, besides device: DeviceID) -> DeviceID? {
    holders[name].flatMap { $0 == device ? nil : $0 }
  }

  /// What a device keeps that gives up its name.
  package func labelsWithoutName(of device: DeviceID) -> DeviceLabels {
    var labels = labels(of: device)
    labels.name = nil
    return labels
  }

  /// The device that an operator means by its name or its id; nil if no device has the name.
  package func device(called text: String) -> DeviceID? {
    DeviceID(text: text) ?? DeviceName(text).flatMap { holders[$0] }
  }

  /// The name itself, or the first of `NAME-2`, `NAME-3` and so on that no other device has.
  package func freeName(like name: DeviceName, for device: DeviceID) -> DeviceName {
    var (free, number) = (name, 1)
    while holder(of: free, besides: device) != nil {
      number += 1
      free = name.numbered(number)
    }
    return free
  }

  private func firstPlace(of owner: UInt64) -> Int {
    var (low, high) = (0, owners.count)
    while low < high {
      let middle = (low + high) / 2
      if owners[middle] < owner { low = middle + 1 } else { high = middle }
    }
    return low
  }

  // MARK: Many devices

  /// The devices with a name or a tag, sorted by id.
  package var devices: [DeviceID] {
    var all = names.keys.map(\.rawValue)
    forEachWithTagsAlone { all.append($0) }
    return all.sorted().map(DeviceID.init)
  }

  /// Those of them behind `first`, or from the beginning, and not behind `last`.
  package func devices(after first: DeviceID?, through last: DeviceID?) -> [DeviceID] {
    let (from, end) = (first?.rawValue, last?.rawValue ?? .max)
    var all: [UInt64] = []
    func add(_ device: UInt64) {
      if from.map({ device > $0 }) ?? true, device <= end { all.append(device) }
    }
    for device in names.keys { add(device.rawValue) }
    forEachWithTagsAlone(add)
    return all.sorted().map(DeviceID.init)
  }

  /// How many devices have a name or a tag.
  package var deviceCount: Int {
    var count = names.count
    forEachWithTagsAlone { _ in count += 1 }
    return count
  }

  /// Visits the devices that have tags and no name.
  private func forEachWithTagsAlone(_ visit: (UInt64) -> Void) {
    for (place, owner) in owners.enumerated()
    where (place == 0 || owners[place - 1] != owner) && names[DeviceID(owner)] == nil {
      visit(owner)
    }
  }

  /// Each tag with the number of devices that have it.
  package var tagCounts: [(tag: DeviceTag, devices: Int)] { tags.counts }

  /// The devices that have all of the tags, sorted by id. A tag that is a key alone stands for every value of that key.
  package func devices(with wanted: [DeviceTag]) -> [DeviceID] {
    let matches = tags.matches(wanted)
    let all = wanted.isEmpty ? 0 : UInt32.max >> UInt32(32 - wanted.count)
    var found: [DeviceID] = []
    var (place, seen) = (0, UInt32(0))
    while place < owners.count {
      seen |= matches[Int(numbers[place])]
      let owner = owners[place]
      place += 1
      guard place == owners.count || owners[place] != owner else { continue }
      if seen == all { found.append(DeviceID(owner)) }
      seen = 0
    }
    return found
  }

  /// Sets the labels of devices. Of two devices that get the same name, the name leads to one.
  package mutating func apply(_ changes: [DeviceID: DeviceLabels]) {
    for device in changes.keys {
      if let old = names.removeValue(forKey: device), holders[old] == device { holders[old] = nil }
    }
    for (device, labels) in changes {
      guard let name = labels.name else { continue }
      names[device] = name
      holders[name] = device
    }
    let added = changes.values.reduce(0) { $0 + $1.tags.count }
    var (newOwners, newNumbers): ([UInt64], [UInt32]) = ([], [])
    newOwners.reserveCapacity(owners.count + added)
    newNumbers.reserveCapacity(owners.count + added)
    var place = 0
    for device in changes.keys.map(\.rawValue).sorted() {
      let start = firstPlace(of: device)
      newOwners += owners[place..<start]
      newNumbers += numbers[place..<start]
      place = start
      // The new tags before the old ones: a number that stays in use is not freed.
      for tag in changes[DeviceID(device)]?.tags ?? [] {
        newOwners.append(device)
        newNumbers.append(tags.use(tag))
      }
      while place < owners.count, owners[place] == device {
        tags.release(numbers[place])
        place += 1
      }
    }
    newOwners += owners[place...]
    newNumbers += numbers[place...]
    (owners, numbers) = (newOwners, newNumbers)
  }
}
