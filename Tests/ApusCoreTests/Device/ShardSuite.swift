import ApusCore
import ApusModel
import ApusWalks
import Testing

/// Shared by the shard suites: one device, one app, and operations on them.
protocol ShardSuite {
  var model: ShardModel { get }
}

extension ShardSuite {
  var topic: TopicKey { ShardModel.topics[0] }
  var device: Device { model.devices[0] }

  /// A connected device with all topics in one list and nothing pending.
  func serve(_ state: TopicState = .enabled) {
    model.connect(device)
    model.filterAll(device, state)
    model.settle()
    device.isDirty = false
    model.shard.dirty.removeAll()
  }

  /// The same with all topics enabled, in a given power state.
  func serve(_ power: PowerState) {
    serve()
    setPower(power)
  }

  func setPower(_ power: PowerState) {
    model.known = nil
    model.shard.setPower(power, device, loopMilliseconds: model.loopMilliseconds)
  }

  /// Sends everything that may be sent; returns the orders.
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
