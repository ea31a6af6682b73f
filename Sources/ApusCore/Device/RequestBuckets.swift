package import ApusModel

/// Rate limits for one device, one bucket per app, because an app has a token of its own. One app's provider does not
/// use up another app's limit. Source: "Handling notification responses from APNs", TooManyRequests.
///
/// The bucket of the app that was last pushed to is inline, the others are in a table while they are not full; for
/// nearly all devices that table is empty.
package struct RequestBuckets: Sendable, Hashable {
  private var topic = TopicKey(app: .base)
  private var bucket = RateLimit.Bucket()
  private var others: [TopicKey: RateLimit.Bucket] = [:]
  /// The size at which full buckets are removed from the table.
  private var crowd = 16

  /// Takes a request from the bucket of `topic`; false if it is empty.
  @inline(__always)
  package mutating func take(_ limit: RateLimit, of topic: TopicKey, atMilliseconds now: Int64)
    -> Bool
  {
    if topic != self.topic { change(to: topic, atMilliseconds: now) }
    return limit.take(from: &bucket, atMilliseconds: now)
  }

  /// Whether all buckets are full, like new ones.
  package func areFull(atMilliseconds now: Int64) -> Bool {
    bucket.isFull(atMilliseconds: now)
      && others.allSatisfy { $0.value.isFull(atMilliseconds: now) }
  }

  private mutating func change(to next: TopicKey, atMilliseconds now: Int64) {
    if !bucket.isFull(atMilliseconds: now) { others[topic] = bucket }
    topic = next
    bucket = RateLimit.Bucket()
    guard !others.isEmpty else { return }
    if let kept = others.removeValue(forKey: next) { bucket = kept }
    // The table therefore holds at most twice as many buckets as the device has apps that are being pushed to.
    guard others.count >= crowd else { return }
    others = others.filter { !$0.value.isFull(atMilliseconds: now) }
    crowd = max(16, 2 * others.count)
  }
}
