import ApusModel

/// Whether the bytes can be a topic: labels of ASCII letters, digits, `-` and `_`, separated by single full stops, no
/// longer than `Limits.topicBytes`.
///
/// Apple's pages give no grammar for `apns-topic`. A bundle id has letters, digits, hyphens and full stops
/// ("CFBundleIdentifier"); underscores occur in old ones.
func isTopicSyntax(_ topic: Span<UInt8>) -> Bool {
  guard topic.count > 0 && topic.count <= Limits.topicBytes else { return false }
  // A label is empty if two full stops are adjacent, or a full stop begins or ends the text.
  var previous: UInt8 = 0x2e
  for index in topic.indices {
    let byte = topic[index]
    if byte == 0x2e {
      guard previous != 0x2e else { return false }
    } else {
      guard isASCIILetterOrDigit(byte) || byte == 0x2d || byte == 0x5f else { return false }
    }
    previous = byte
  }
  return previous != 0x2e
}

extension TopicSuffix {
  /// Bytes of the longest suffix: a bundle id leaves room for it within `Limits.topicBytes`.
  static let longestByteCount = allCases.map(\.text.utf8CodeUnitCount).max() ?? 0
}
