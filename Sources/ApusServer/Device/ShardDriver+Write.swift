import ApusCore
import ApusModel
import ApusStore

/// A put of a group: its device, and its place in the group.
struct WritePlace: Comparable {
  var device: UInt64
  var index: Int

  static func < (left: WritePlace, right: WritePlace) -> Bool {
    left.device != right.device ? left.device < right.device : left.index < right.index
  }
}

/// What a group writes of devices and notifications.
extension ShardDriver {
  /// Finds out in which order the puts of a sealed group are looked up and written: that of the store.
  func orderPuts(of entries: [GroupEntry]) {
    writeOrder.removeAll(keepingCapacity: true)
    let entries = entries.span
    for index in entries.indices where entries[index].kind.isPut {
      writeOrder.append(WritePlace(device: entries[index].device.key.id.rawValue, index: index))
    }
    writeOrder.sort()
  }

  /// Writes a group, its notifications in the order of their devices: the engine's memtable is a skip list, in which
  /// neighbours lie on one path, and where a slot is written twice the first need not be written at all.
  ///
  /// Puts alone change places. What they find is the same: removals stand before them, records are another family, and
  /// of two puts for one slot the later one still decides. An eviction stands behind what it takes out, and there
  /// everything keeps its place.
  func write(_ entries: [GroupEntry], hasEvictions: Bool) {
    let entries = entries.span
    for index in entries.indices where hasEvictions || !entries[index].kind.isPut {
      write(entries, at: index)
    }
    guard !hasEvictions else { return }
    var waiting: WritePlace?
    // One that got no slot is a put no more.
    for place in writeOrder where entries[place.index].kind.isPut {
      if let waiting,
        waiting.device != place.device
          || !entries[waiting.index].hasSlot(of: entries[place.index])
      {
        put(entries[waiting.index].delivery)
      }
      waiting = place
    }
    if let waiting { put(entries[waiting.index].delivery) }
  }

  private func put(_ delivery: Delivery?) {
    delivery?.notification.put(into: &group)
  }

  /// By its parts: the whole entry would be copied for the call.
  private func write(_ entries: Span<GroupEntry>, at index: Int) {
    switch entries[index].kind {
    case .outdated, .milestone: break
    case .put: put(entries[index].delivery)
    case .delete, .evict:
      let (device, slot) = (entries[index].device, entries[index].slot)
      let key = MailboxKey(
        device: device.key.id, topic: slot.topic, environment: device.key.environment,
        index: slot.index
      ).encoded()
      group.delete(.mailbox, key: key.span)
    // One that has changed since has another entry behind this: each change gathers one, and a group is all of them.
    case .record(let version) where version < entries[index].device.recordVersion: break
    case .record: writeRecord(of: entries[index].device)
    }
  }

  private func writeRecord(of device: Device) {
    precondition(!device.isAbridged, "a device whose record was not read cannot be written")
    let fingerprint = device.keyFingerprint
    DeviceRecord(
      fingerprint: KeyFingerprint(bytes: fingerprint.span) ?? .none,
      issuedSeconds: device.issuedSeconds,
      topics: device.registration.topics
    ).encode(into: &record)
    let key = DeviceRecord.key(device.key.id, device.key.environment)
    let value = record
    group.put(.devices, key: key.span, value: value.span)
  }
}
