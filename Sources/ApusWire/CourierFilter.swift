package import ApusModel

/// The lists of a filter, with the numbers of their fields.
package enum CourierTopicList: UInt8, Sendable, CaseIterable, Hashable {
  /// Deliver now.
  case enabled = 2
  /// Do not deliver; the app is still installed.
  case ignored = 3
  /// Deliver when the connection is in use anyway.
  case opportunistic = 4
  /// Keep; deliver nothing.
  case paused = 5
  /// Deliver without waking the device.
  case nonWaking = 6
}

/// 0x09: which topics the device wants. Each filter replaces the one before.
package struct CourierFilter: CourierMessage {
  /// The connection's base token; nil if the field is missing.
  package var token: DeviceToken?
  package var enabled: [TopicHash] = []
  package var ignored: [TopicHash] = []
  package var opportunistic: [TopicHash] = []
  package var paused: [TopicHash] = []
  package var nonWaking: [TopicHash] = []

  package init(token: DeviceToken?) { self.token = token }

  package subscript(list: CourierTopicList) -> [TopicHash] {
    get {
      switch list {
      case .enabled: enabled
      case .ignored: ignored
      case .opportunistic: opportunistic
      case .paused: paused
      case .nonWaking: nonWaking
      }
    }
    _modify {
      switch list {
      case .enabled: yield &enabled
      case .ignored: yield &ignored
      case .opportunistic: yield &opportunistic
      case .paused: yield &paused
      case .nonWaking: yield &nonWaking
      }
    }
  }

  /// Reads a filter of at most `Limits.courierFilterTopics` topics. A field holds one topic, or several in a row, as
  /// one client writes them.
  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    self.init(token: nil)
    var topics = 0
    var fields = CourierFields(.filter, body)
    while let field = try fields.next() {
      if field.id == 1 {
        token = try field.token()
        continue
      }
      guard let list = CourierTopicList(rawValue: field.id) else { continue }
      guard field.value.count.isMultiple(of: TopicHash.byteCount) else { throw field.fault }
      topics += field.value.count / TopicHash.byteCount
      guard topics <= Limits.courierFilterTopics else { throw .tooManyTopics }
      for start in stride(from: 0, to: field.value.count, by: TopicHash.byteCount) {
        guard let topic = TopicHash(field.value.extracting(start..<start + TopicHash.byteCount))
        else { throw field.fault }
        self[list].append(topic)
      }
    }
  }

  package func encode(to output: inout [UInt8]) {
    output.appendFrame(
      .filter, room: 35 + 23 * CourierTopicList.allCases.reduce(0) { $0 + self[$1].count }
    ) { fields in
      if let token { fields.appendField(1, token) }
      for list in CourierTopicList.allCases {
        for topic in self[list] { fields.appendField(list.rawValue, topic) }
      }
    }
  }
}
