import ApusModel
import Testing

struct PushTypeTests {
  /// "Sending notification requests to APNs", the list of push types: the suffixes after the bundle id.
  static let types: [(String, PushType, TopicSuffix, String)] = [
    ("alert", .alert, .none, ""),
    ("background", .background, .none, ""),
    ("complication", .complication, .complication, ".complication"),
    ("controls", .controls, .controls, ".push-type.controls"),
    ("fileprovider", .fileprovider, .fileProvider, ".pushkit.fileprovider"),
    ("liveactivity", .liveactivity, .liveActivity, ".push-type.liveactivity"),
    ("location", .location, .locationQuery, ".location-query"),
    ("mdm", .mdm, .none, ""),
    ("pushtotalk", .pushtotalk, .pushToTalk, ".voip-ptt"),
    ("voip", .voip, .voip, ".voip"),
    ("widgets", .widgets, .widgets, ".push-type.widgets"),
  ]

  func read(_ text: String) -> PushType? {
    let bytes = Array(text.utf8)
    return PushType(headerValue: bytes.span)
  }

  func suffix(_ topic: String) -> TopicSuffix {
    let bytes = Array(topic.utf8)
    return TopicSuffix(of: bytes.span)
  }

  @Test("Every push type has its name, its suffix and no case", arguments: types)
  func table(name: String, type: PushType, kind: TopicSuffix, text: String) {
    #expect(read(name) == type)
    #expect(read(name.uppercased()) == type)
    #expect(read(name.prefix(1).uppercased() + name.dropFirst()) == type)
    #expect(type.name.description == name)
    #expect(type.topicSuffix == kind)
    #expect(kind.text.description == text)
    #expect(suffix("com.example.app" + text) == kind)
  }

  @Test("The table has every push type and every suffix")
  func complete() {
    #expect(Set(Self.types.map(\.1)) == Set(PushType.allCases))
    #expect(Set(Self.types.map(\.2)) == Set(TopicSuffix.allCases))
  }

  @Test(
    "A text that is not a push type is rejected",
    arguments: ["", " alert", "alert ", "alerts", "aler", "live-activity", "ALERT\0", "\u{1}lert"])
  func unknown(text: String) {
    #expect(read(text) == nil)
  }

  /// Setting bit 5 of a byte that is not a letter must not make it one: `@` is 0x40, and 0x60 is not a letter either.
  @Test("Only ASCII letters have two cases")
  func letterCase() {
    for byte in UInt8.min...UInt8.max {
      let text: [UInt8] = [byte] + Array("lert".utf8)
      let isA = byte == UInt8(ascii: "a") || byte == UInt8(ascii: "A")
      #expect((PushType(headerValue: text.span) == .alert) == isA, "\(byte)")
    }
  }

  @Test(
    "A topic has a suffix only if it ends in one",
    arguments: [
      ("com.example.app", .none), ("", .none), ("voip", .none), (".voip", .voip),
      ("com.example.voip-ptt", .pushToTalk), ("com.example.voip.ptt", .none),
      ("com.example.voip.app", .none), ("com.example.VOIP", .none),
      ("com.example.push-type.widget", .none), ("com.example.app.voip.complication", .complication),
    ] as [(String, TopicSuffix)])
  func suffixes(topic: String, expected: TopicSuffix) {
    #expect(suffix(topic) == expected)
  }
}
