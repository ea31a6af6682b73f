package import ApusModel

/// Requests for one device, a bucket for each app: "too many consecutive requests to the same device token", and an app
/// has a token of its own. What one app's provider does costs no other app's anything.
///
/// The bucket of the app that was pushed to last lies here, the others in a table while they are not full: nearly all
/// devices have none there.
package struct RequestBuckets: Sendable, Hashable {
  private var topic = TopicKey(app: .base)
  private var bucket = RateLimit.Bucket()
  private var others: [TopicKey: RateLimit.Bucket] = [:]
  /// So many in the table have it looked through for full ones.
  private var crowd = 16

  /// Takes a request out of the bucket of `topic`; false where it is empty.
  @inline(__always)
  package mutating func take(_ limit: RateLimit, of topic: TopicKey, atMilliseconds now: Int64)
    -> Bool
  {
    if topic != self.topic { change(to: topic, atMilliseconds: now) }
    return limit.take(from: &bucket, atMilliseconds: now)
  }

  /// Whether nothing was taken lately: they are as good as new ones.
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
    // So as many remain as twice the apps of the device that are pushed to at this moment.
    guard others.count >= crowd else { return }
    others = others.filter { !$0.value.isFull(atMilliseconds: now) }
    crowd = max(16, 2 * others.count)
  }
}
