/// A rule of broadcasts that a simulation has the service break, to prove that its laws notice.
package enum BroadcastFault: Sendable {
  /// Which broadcasts a device has is not written when its connection ends.
  case savesNoMarks
  /// Connected devices are not told of a broadcast.
  case beginsNoWalks
  /// Dormant devices are not woken for a broadcast.
  case passesDormant
  /// Channels that a device unsubscribes from stay subscribed.
  case keepsUnsubscribed
  /// What channels keep is not read when the service starts.
  case readsNoStored
  /// What a copy of the channels could not write is not tried again.
  case forgetsUnwritten
}
