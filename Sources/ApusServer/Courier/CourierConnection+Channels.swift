import ApusCore
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

// Channels: what the device subscribes to, and the broadcasts that it is sent.

extension CourierConnection {
  /// A request to subscribe, to unsubscribe, or for the list. Answered once the change is durable.
  func subscribe(_ request: CourierChannelRequest, _ device: Device) {
    guard request.token == nil || request.token == baseToken else {
      skippedFrames += 1
      return
    }
    guard stage == .serving else {
      return confirm(request.index, .unknownTopic, [])
    }
    guard openChanges < Self.openChangeLimit else {
      return end(reason: "too many changes of subscriptions at once")
    }
    openChanges += 1
    shard.subscriptions.change(request.subscriptions, of: device, slot: connection.slot) {
      [weak self] status, topics in
      guard let self else { return }
      openChanges -= 1
      confirm(request.index, status, topics)
    }
  }

  /// Requests that wait for the store.
  private static let openChangeLimit = 16

  private func confirm(
    _ index: UInt32, _ status: CourierChannelConfirmation.Status, _ topics: [CourierChannelTopic]
  ) {
    guard stage != .over else { return }
    CourierChannelConfirmation(
      index: index, token: baseToken, status: status,
      subscriptions: dialect.allowsExtensions ? CourierSubscriptions(topics: topics) : nil
    ).encode(to: &output)
    looksForBroadcasts = true
    connection.markDirty()
  }

  /// A walk along a channel has come to this device.
  func broadcastDue() {
    looksForBroadcasts = true
    connection.markDirty()
  }

  /// Sends the broadcasts that are due, as far as their window and the socket allow.
  func sendBroadcasts(_ device: Device) {
    while looksForBroadcasts, stage == .serving, connection.mayWrite,
      sentBroadcasts.count < Limits.broadcastWindowFrames
    {
      guard
        let due = shard.subscriptions.next(
          for: device, slot: connection.slot, radioIsInUse: radioIsInUse)
      else {
        looksForBroadcasts = false
        break
      }
      if let answer = earlyAnswers?.take(due.sent.messageID) {
        shard.subscriptions.acknowledge(
          due.sent, slot: connection.slot, isDelivered: answer == .taken)
        continue
      }
      // What a device has acknowledged is written when its connection ends: after a kill it may come again.
      due.frame.append(
        to: &output, token: baseToken,
        storage: due.hasWaited ? [.fromStorage, .mayBeRepeated] : [],
        extensions: dialect.allowsExtensions)
      // A device that subscribed anew may get it a second time: its acknowledgement goes for both.
      if !sentBroadcasts.contains(where: { $0.messageID == due.sent.messageID }) {
        sentBroadcasts.append(due.sent)
      }
      if output.count >= TLSBuffers.recordBytes { sendOutput() }
    }
  }

  /// Whether an acknowledgement was for a broadcast.
  func acknowledgeBroadcast(_ acknowledgement: CourierAcknowledgement) -> Bool {
    guard !sentBroadcasts.isEmpty,
      let place = sentBroadcasts.firstIndex(where: { $0.messageID == acknowledgement.messageID })
    else { return false }
    let sent = sentBroadcasts.remove(at: place)
    shard.subscriptions.acknowledge(
      sent, slot: connection.slot, isDelivered: acknowledgement.status == .taken)
    looksForBroadcasts = true
    return true
  }
}
