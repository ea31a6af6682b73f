import ApusCore
import ApusModel
import Testing

/// What the suites about a shard share: one device, one app, and what is done with them.
protocol ShardSuite {
  var model: ShardModel { get }
}

extension ShardSuite {
  var topic: TopicKey { ShardModel.topics[0] }
  var device: Device { model.devices[0] }

  /// A device that is connected, with all topics in one list, and has nothing to come.
  func serve(_ state: TopicState = .enabled) {
    model.connect(device)
    model.filterAll(device, state)
    model.settle()
    device.isDirty = false
    model.shard.dirty.removeAll()
  }

  /// The same with all topics enabled, in a state of power.
  func serve(_ power: PowerState) {
    serve()
    setPower(power)
  }

  func setPower(_ power: PowerState) {
    model.shard.setPower(power, device, loopMilliseconds: model.loopMilliseconds)
  }

  /// Sends what may be sent; the places in the order.
  @discardableResult
  func sendAll() -> [UInt64] {
    var sent: [UInt64] = []
    while let order = model.send(device) { sent.append(order) }
    return sent
  }

  func messageID(_ order: UInt64) -> UInt32 { UInt32(order) + 1 }

  func acknowledge(_ order: UInt64?, status: UInt8 = 0) {
    model.acknowledge(device, messageID: messageID(order ?? 0), status: status)
  }

  func expectLawful() {
    model.check()
    #expect(model.faults == [])
  }
}
