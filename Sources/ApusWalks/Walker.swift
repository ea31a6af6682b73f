import ApusCore
import ApusModel
import ApusRandom

/// Random operations on a model.
struct Walker {
  let model: ShardModel
  let diskFails: Bool
  /// Whether sometimes more arrives than a session accepts.
  let isCrowded: Bool
  var random: SeededRandom

  init(seed: UInt64) {
    model = ShardModel(devices: 3)
    diskFails = seed.isMultiple(of: 4)
    isCrowded = seed % 50 == 7
    random = SeededRandom(seed: seed)
    if seed.isMultiple(of: 3) { model.shard.slots.retentions = [AppID(1): 2, AppID(3): 3] }
    for device in model.devices {
      model.connect(device)
      model.filterAll(device)
      model.settle()
    }
  }

  mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

  mutating func pick<T>(_ items: [T]) -> T {
    items[Int.random(in: 0..<items.count, using: &random)]
  }

  mutating func step() -> String {
    model.known = nil
    let device = pick(model.devices)
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<32: return submit(device)
    case 32..<48: return send(device)
    case 48..<64: return acknowledge(device)
    case 64..<69: return filter(device)
    case 69..<73: return connection(device)
    case 73..<76: return power(device)
    case 76: return memory(device)
    case 77..<84:
      model.seal(all: chance(20), trimming: chance(50))
      return "seal"
    case 84..<86:
      model.write()
      return "write"
    case 86..<91:
      let succeeded = !diskFails || chance(60)
      let keeps = !succeeded && chance(50)
      model.commit(succeeded: succeeded, keeps: keeps)
      return succeeded ? "commit" : keeps ? "failing commit that is kept" : "failing commit"
    case 91..<97:
      model.drain()
      return "drain"
    case 97:
      if chance(50) { return lose(device) }
      model.cycle(device)
      return "cycle"
    case 98: return retirement(device)
    default: return time()
    }
  }

  mutating func submit(_ device: Device) -> String {
    let burst =
      isCrowded && chance(3)
      ? Limits.courierQueueFrames + pick([10, 10, 500])
      : chance(20) ? 3 : 1
    for _ in 0..<burst {
      model.submit(
        device, pick(ShardModel.topics), priority: pick([.immediate, .powerSaving, .whenActive]),
        expiresInSeconds: chance(15) ? 0 : Int64.random(in: 1...60, using: &random),
        payloadBytes: chance(5) ? 5120 : Int.random(in: 0...40, using: &random),
        collapseID: chance(70) ? "" : pick(["score", "weather"]), isBackground: chance(10),
        interface: chance(70) ? .http2 : .binary)
      if chance(30) { model.loopMilliseconds += 1 }
    }
    return "submit \(burst)"
  }

  mutating func send(_ device: Device) -> String {
    for _ in 0..<Int.random(in: 1...40, using: &random) {
      guard model.send(device) != nil else { break }
    }
    model.shard.continueDrain(device)
    return "send"
  }

  mutating func acknowledge(_ device: Device) -> String {
    let waiting = (model.unanswered[device.key] ?? [:]).keys.sorted()
    guard !waiting.isEmpty, !chance(3) else {
      model.acknowledge(device, messageID: UInt32.random(in: 1...400, using: &random))
      return "acknowledge any"
    }
    for _ in 0..<Int.random(in: 1...6, using: &random) {
      model.acknowledge(device, messageID: pick(waiting), status: chance(10) ? 2 : 0)
    }
    return "acknowledge"
  }

  mutating func filter(_ device: Device) -> String {
    var lists: [TopicKey: TopicState] = [:]
    for topic in ShardModel.topics where chance(90) {
      lists[topic] =
        chance(50) ? .enabled : pick([.nonWaking, .opportunistic, .paused, .paused, .ignored])
    }
    guard device.session != nil else { return "no filter" }
    model.filter(device, lists)
    return "filter"
  }

  mutating func retirement(_ device: Device) -> String {
    guard device.retiredMilliseconds != nil, !model.purging.contains(device.key) else {
      model.retire(device)
      return "retire"
    }
    model.reinstate(device)
    return "reinstate"
  }

  mutating func connection(_ device: Device) -> String {
    guard device.retiredMilliseconds == nil else { return "no connection" }
    if device.session != nil {
      model.disconnect(device)
      if chance(50) { return "disconnect" }
    }
    model.connect(device)
    if chance(50) { model.filterAll(device) }
    return "connect"
  }

  mutating func memory(_ device: Device) -> String {
    guard chance(30) else {
      if chance(50) {
        model.comeBy(device)
        return "come by"
      }
      model.forget(device)
      return "forget"
    }
    model.crash()
    return "crash"
  }

  /// The device's connection ends repeatedly at a notification.
  mutating func lose(_ device: Device) -> String {
    guard device.retiredMilliseconds == nil else { return "no loss" }
    for _ in 0..<Int.random(in: 1...20, using: &random) {
      if device.session != nil { model.disconnect(device) }
      model.connect(device)
      model.filterAll(device)
      model.settle()
      while model.send(device) != nil, chance(80) {}
    }
    model.disconnect(device)
    return "lose"
  }

  mutating func power(_ device: Device) -> String {
    switch Int.random(in: 0..<3, using: &random) {
    case 0:
      model.shard.setPower(
        pick(PowerState.allCases), device, loopMilliseconds: model.loopMilliseconds)
    case 1:
      model.shard.setPower(.active, device, loopMilliseconds: model.loopMilliseconds)
    default: model.shard.radioIsInUse(device, loopMilliseconds: model.loopMilliseconds)
    }
    return "power"
  }

  mutating func time() -> String {
    if !model.shard.slots.retentions.isEmpty, chance(20) {
      // The operator takes the retirement back.
      model.shard.slots.retentions[AppID(1)] = pick([1, 2, 4])
      model.shard.slots.retentions[AppID(3)] = pick([2, 3])
    }
    let milliseconds = Int.random(in: 1...9000, using: &random)
    model.loopMilliseconds += UInt64(milliseconds)
    model.wallMilliseconds += Int64(milliseconds)
    for device in model.devices { model.deadlineReached(device) }
    return "time"
  }
}
