import ApusDirectory
import ApusModel
import ApusRandom
import Testing

@Suite("Names and tags in memory")
struct LabelIndexTests {
  @Test(
    "A tag is a key or a key with a value",
    arguments: [
      ("floor=2", true), ("floor", true), ("a.b-c_d=1:2/3@4+5", true), ("floor=", false),
      ("=2", false), ("", false), ("floor=2=3", false), ("fl oor=2", false), ("flöor", false),
      (String(repeating: "k", count: 64), true), (String(repeating: "k", count: 65), false),
    ])
  func tags(text: String, isTag: Bool) {
    #expect((DeviceTag(text) != nil) == isTag)
  }

  @Test(
    "A name is one line of text that is no id",
    arguments: [
      ("kitchen", true), ("Küche 2", true), ("", false), (" kitchen", false), ("kitchen ", false),
      ("a\tb", false), ("a\nb", false), ("0123456789abcdef", false), ("0123456789abcdeg", true),
      ("a\u{200b}b", false), (String(repeating: "n", count: 65), false),
    ])
  func names(text: String, isName: Bool) {
    #expect((DeviceName(text) != nil) == isName)
  }

  @Test("A key has one value, and a device at most 16 tags")
  func oneValue() throws {
    var labels = DeviceLabels()
    for number in 0..<16 { #expect(labels.set(try tag("k\(number)=1"))) }
    #expect(!labels.set(try tag("other")))
    #expect(labels.set(try tag("k3=2")))
    #expect(labels.tags.filter { $0.key == "k3" } == [try tag("k3=2")])
  }

  @Test("Devices are found by tags, by keys, and by several at once")
  func find() throws {
    var index = LabelIndex()
    index.apply([
      DeviceID(3): try labels("kitchen", "floor=2", "room=north"),
      DeviceID(1): try labels(nil, "floor=2"),
      DeviceID(2): try labels("hall", "floor=1", "room=north"),
      DeviceID(9): try labels("cellar"),
    ])
    #expect(index.devices(with: [try tag("floor=2")]) == [DeviceID(1), DeviceID(3)])
    #expect(index.devices(with: [try tag("floor")]) == [DeviceID(1), DeviceID(2), DeviceID(3)])
    #expect(index.devices(with: [try tag("floor=2"), try tag("room=north")]) == [DeviceID(3)])
    #expect(index.devices(with: [try tag("floo")]).isEmpty)
    #expect(index.devices(with: [try tag("floor=3")]).isEmpty)
    #expect(index.device(called: "kitchen") == DeviceID(3))
    #expect(index.device(called: "0000000000000007") == DeviceID(7))
    #expect(index.device(called: "attic") == nil)
    #expect(index.devices.map(\.rawValue) == [1, 2, 3, 9])
    #expect(index.deviceCount == 4)
    #expect(index.tagCounts.map(\.tag.text) == ["floor=1", "floor=2", "room=north"])
    #expect(index.tagCounts.map(\.devices) == [1, 2, 2])
  }

  @Test("A name that a device gave up leads to its next holder")
  func rename() throws {
    var index = LabelIndex()
    index.apply([DeviceID(1): try labels("kitchen")])
    index.apply([DeviceID(1): try labels("old"), DeviceID(2): try labels("kitchen")])
    #expect(index.device(called: "kitchen") == DeviceID(2))
    #expect(index.device(called: "old") == DeviceID(1))
    index.apply([DeviceID(2): DeviceLabels()])
    #expect(index.device(called: "kitchen") == nil)
    #expect(index.freeName(like: try name("old"), for: DeviceID(1)).text == "old")
    #expect(index.freeName(like: try name("old"), for: DeviceID(5)).text == "old-2")
  }

  @Test("After any changes, the index says what a plain dictionary says")
  func againstDictionary() throws {
    var random = SeededRandom(seed: UInt64.random(in: 0...UInt64.max))
    var (index, plain) = (LabelIndex(), [DeviceID: DeviceLabels]())
    for _ in 0..<300 {
      var changes: [DeviceID: DeviceLabels] = [:]
      for _ in 0..<Int.random(in: 1...5, using: &random) {
        let device = DeviceID(UInt64.random(in: 0..<40, using: &random))
        var new = DeviceLabels()
        for _ in 0..<Int.random(in: 0...3, using: &random) {
          _ = new.set(
            try tag(
              "k\(Int.random(in: 0..<4, using: &random))=\(Int.random(in: 0..<3, using: &random))")
          )
        }
        changes[device] = new
      }
      index.apply(changes)
      plain.merge(changes) { _, new in new }
      for (device, labels) in plain { #expect(index.labels(of: device) == labels) }
      let wanted = [try tag("k1"), try tag("k2=1")]
      let expected = plain.filter { _, labels in
        labels.tags.contains { $0.key == "k1" } && labels.tags.contains { $0.text == "k2=1" }
      }
      #expect(index.devices(with: wanted) == expected.keys.sorted { $0.rawValue < $1.rawValue })
    }
  }
}

func tag(_ text: String) throws -> DeviceTag { try #require(DeviceTag(text)) }

func name(_ text: String) throws -> DeviceName { try #require(DeviceName(text)) }

func labels(_ name: String?, _ tags: String...) throws -> DeviceLabels {
  try #require(
    DeviceLabels(name: name.flatMap { DeviceName($0) }, tags: tags.compactMap { DeviceTag($0) }))
}
