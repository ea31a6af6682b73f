public import ApusModel
import ApusTrust

/// Creates, reads, lists and deletes the channels of apps, at the service's endpoint for that.
///
/// Sending broadcasts is the work of an ``APNSClient``, for which the same configuration is good. A channel client has
/// one connection, which it opens for a request and closes after a minute without any. Source: Sending channel
/// management requests to APNs.
///
/// ```swift
/// let channels = try ChannelClient(configuration)
/// let channel = try await channels.create(app: "com.example.app", storage: .newest)
/// ```
public final class ChannelClient: Sendable {
  private let client: APNSClient

  /// Creates a client, which stays idle until the first request.
  ///
  /// It connects to `ClientConfiguration.channelsEndpoint`. Throws if the configuration is invalid, or if it gives no
  /// such endpoint and none is known for its service.
  public init(_ configuration: ClientConfiguration) throws(ClientConfigurationError) {
    client = try APNSClient(try configuration.forChannels())
  }

  /// Creates a channel, and returns its id. An app has at most 10,000 in each environment.
  ///
  /// The client never repeats the request if a channel may already have been created. It then throws
  /// ``ChannelError/Kind/unknown(_:mayBeDone:)``: a channel may exist whose id nobody was told, and which
  /// ``list(app:within:)`` shows.
  ///
  /// - Parameters:
  ///   - bundleID: The app's bundle id, without a suffix.
  ///   - storage: What the service keeps for devices that are offline. It cannot be changed later.
  ///   - timeout: How long to wait; nil for `ClientConfiguration.sendTimeoutSeconds`.
  public func create(
    app bundleID: String, storage: ChannelStorage, within timeout: Duration? = nil
  ) async throws(ChannelError) -> BroadcastChannel.ID {
    let request = ChannelRequest.create(storage)
    let answer = try await answer(to: request, app: bundleID, timeout)
    guard let id = answer.channelID else { throw Self.misunderstood("no channel id", request) }
    return id
  }

  /// Reads what a channel stores.
  public func read(
    _ id: BroadcastChannel.ID, app bundleID: String, within timeout: Duration? = nil
  ) async throws(ChannelError) -> BroadcastChannel {
    let request = ChannelRequest.read(id)
    let answer = try await answer(to: request, app: bundleID, timeout)
    guard let storage = answer.storage else {
      throw Self.misunderstood("no storage policy that is known", request)
    }
    return BroadcastChannel(id: id, storage: storage)
  }

  /// Deletes a channel for good. What it stores may still be delivered.
  public func delete(
    _ id: BroadcastChannel.ID, app bundleID: String, within timeout: Duration? = nil
  ) async throws(ChannelError) {
    _ = try await answer(to: .delete(id), app: bundleID, timeout)
  }

  /// The ids of all channels of an app, in the service's order.
  public func list(
    app bundleID: String, within timeout: Duration? = nil
  ) async throws(ChannelError) -> [BroadcastChannel.ID] {
    let answer = try await answer(to: .list, app: bundleID, timeout)
    guard let ids = answer.channelIDs else { throw Self.misunderstood("no list of ids", .list) }
    return ids
  }

  private func answer(
    to request: ChannelRequest, app bundleID: String, _ timeout: Duration?
  ) async throws(ChannelError) -> ChannelAnswer {
    let push: EncodedPush
    do throws(PushRequestError) {
      push = try EncodedPush(request, app: bundleID, id: randomID())
    } catch {
      throw ChannelError(.invalid(error), error.description)
    }
    let (outcome, answer) = await client.perform(push, within: timeout)
    switch outcome {
    case .accepted:
      guard let answer else { throw Self.misunderstood("nothing", request) }
      return answer
    case .rejected(let rejection): throw ChannelError(.rejected(rejection), "\(rejection)")
    case .unknown(let cause, let mayBeDone):
      throw ChannelError(cause, mayBeDone: mayBeDone, request)
    }
  }

  private static func misunderstood(_ text: String, _ request: ChannelRequest) -> ChannelError {
    ChannelError(
      UnknownCause(.answerNotUnderstood, "it contains \(text)"), mayBeDone: true, request)
  }

  /// Waits for open requests, and closes the connection cleanly. Later requests throw.
  public func close() async { await client.close() }

  /// Closes the client immediately; open requests throw.
  public func closeImmediately() { client.closeImmediately() }
}

/// Why a request about channels has no result.
public struct ChannelError: Error, Sendable, Hashable, CustomStringConvertible {
  public enum Kind: Sendable, Hashable {
    /// The bundle id is invalid; nothing was sent.
    case invalid(PushRequestError)
    /// The service rejected the request, with a reason. Nothing has changed.
    case rejected(PushRejection)
    /// There is no usable answer. `mayBeDone`: a channel may have been created or deleted.
    case unknown(UnknownCause, mayBeDone: Bool)
  }

  public var kind: Kind
  /// What happened, and what it means for a channel that was to be created or deleted.
  public var description: String

  init(_ kind: Kind, _ description: String) {
    self.kind = kind
    self.description = description
  }

  init(_ cause: UnknownCause, mayBeDone: Bool, _ request: ChannelRequest) {
    let mayBeDone = mayBeDone && request.changesChannels
    self.init(
      .unknown(cause, mayBeDone: mayBeDone),
      "no answer (\(cause))" + (mayBeDone ? request.doubt : ""))
  }
}
