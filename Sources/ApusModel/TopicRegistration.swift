/// What is known of one topic on one device.
public struct TopicRegistration: Sendable, Hashable {
  public var topic: TopicKey
  /// The generation that the topic's token must carry; 0 where none was minted yet.
  public var generation: UInt16
  /// What the last filter said.
  public var state: TopicState
  /// Whether a filter named the topic once: only then does its absence mean that the app is gone.
  public var wasListed: Bool
  /// Unix milliseconds since when `state` holds: for a removed topic, the time in the provider's 410.
  public var stateSinceMilliseconds: Int64
  /// Unix milliseconds since when older generations are dead.
  public var generationSinceMilliseconds: Int64

  public init(
    topic: TopicKey, generation: UInt16, state: TopicState, wasListed: Bool,
    stateSinceMilliseconds: Int64, generationSinceMilliseconds: Int64
  ) {
    self.topic = topic
    self.generation = generation
    self.state = state
    self.wasListed = wasListed
    self.stateSinceMilliseconds = stateSinceMilliseconds
    self.generationSinceMilliseconds = generationSinceMilliseconds
  }
}
