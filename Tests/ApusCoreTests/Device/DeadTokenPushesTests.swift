import ApusCore
import ApusModel
import ApusWalks
import Testing

struct DeadTokenPushesTests: ShardSuite {
  let model = ShardModel()

  @Test("Pushes to a token that has been dead for more than a day are counted by topic")
  func counted() {
    serve()
    model.filter(device, [:])
    model.wallMilliseconds += 24 * 3600 * 1000
    #expect(model.submit(device, topic) == nil)
    #expect(model.shard.deadTokenPushes.numbers.isEmpty)
    model.wallMilliseconds += 1
    #expect(model.submit(device, topic) == nil)
    model.submit(device, topic, interface: .binary)
    let key = DeadTokenPushes.Key(topic: topic, environment: device.key.environment)
    #expect(model.shard.deadTokenPushes.numbers == [key: 2])
    let sum = model.shard.deadTokenPushes + model.shard.deadTokenPushes
    #expect(sum.numbers == [key: 4])
  }
}
