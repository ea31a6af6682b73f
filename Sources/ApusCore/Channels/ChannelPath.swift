import ApusModel

/// The two resources of the channel management API.
package enum ChannelPath: Sendable, Hashable {
  /// `/1/apps/BUNDLE-ID/channels`: one channel.
  case channels
  /// `/1/apps/BUNDLE-ID/all-channels`: the list of all.
  case allChannels

  var text: StaticString {
    switch self {
    case .channels: "channels"
    case .allChannels: "all-channels"
    }
  }

  /// The methods, for a sentence.
  var methods: String {
    switch self {
    case .channels: "POST, GET and DELETE"
    case .allChannels: "only GET"
    }
  }

  static let prefix: StaticString = "/1/apps/"

  /// Takes a path apart: what it names, and where the bundle id is in it. Nil for any other path.
  static func parse(_ path: Span<UInt8>) -> (path: ChannelPath, bundle: Range<Int>)? {
    let start = prefix.utf8CodeUnitCount
    guard path.count > start, path.extracting(0..<start).equals(prefix) else { return nil }
    var slash = start
    while slash < path.count, path[slash] != 0x2f { slash += 1 }
    guard slash > start, slash < path.count else { return nil }
    let last = path.extracting((slash + 1)...)
    for path in [ChannelPath.channels, .allChannels] where last.equals(path.text) {
      return (path, start..<slash)
    }
    return nil
  }
}
