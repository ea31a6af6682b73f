package import ApusWire

/// The topics of a device in the courier's lists. A topic in no list counts as uninstalled.
package struct CourierTopics: Sendable, Hashable {
  package var enabled: [TopicHash]
  package var ignored: [TopicHash]
  package var opportunistic: [TopicHash]
  package var paused: [TopicHash]
  package var nonWaking: [TopicHash]

  package init(
    enabled: [TopicHash] = [], ignored: [TopicHash] = [], opportunistic: [TopicHash] = [],
    paused: [TopicHash] = [], nonWaking: [TopicHash] = []
  ) {
    self.enabled = enabled
    self.ignored = ignored
    self.opportunistic = opportunistic
    self.paused = paused
    self.nonWaking = nonWaking
  }
}
