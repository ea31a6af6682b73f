/// The state of one topic on one device.
public struct TopicRegistration: Sendable, Hashable {
  public var topic: TopicKey
  /// The generation that the topic's token must have; 0 if none was issued yet.
  public var generation: UInt16
  /// From the last filter.
  public var state: TopicState
  /// Whether a filter ever listed the topic: only then does its absence mean that the app was removed.
  public var wasListed: Bool
  /// Unix milliseconds since when `state` has applied: for a removed topic, the time in the provider's 410.
  public var stateSinceMilliseconds: Int64
  /// Unix milliseconds since when older generations have been dead.
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
