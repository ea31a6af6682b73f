import CAgent
import Glibc

/// An account of the system.
struct Account: Sendable, Equatable {
  var name: String
  var user: uid_t
  var group: gid_t
  var home: String
  /// All of its groups.
  var groups: [gid_t]

  /// Nil if there is no such account.
  init?(named name: String) {
    unsafe self.init { unsafe getpwnam_r(name, $0, $1, $2, $3) }
  }

  init?(user: uid_t) {
    unsafe self.init { unsafe getpwuid_r(user, $0, $1, $2, $3) }
  }

  private init?(
    _ find: (
      UnsafeMutablePointer<passwd>, UnsafeMutablePointer<CChar>, Int,
      UnsafeMutablePointer<UnsafeMutablePointer<passwd>?>
    ) -> Int32
  ) {
    var entry = unsafe passwd()
    var found: UnsafeMutablePointer<passwd>?
    var buffer = [CChar](repeating: 0, count: 16_384)
    let code = unsafe buffer.withUnsafeMutableBufferPointer { buffer in
      guard let base = buffer.baseAddress else { return EINVAL }
      return unsafe find(&entry, base, buffer.count, &found)
    }
    guard unsafe code == 0 && found != nil else { return nil }
    let text = unsafe (String(cString: entry.pw_name), String(cString: entry.pw_dir))
    (name, home) = text
    user = unsafe entry.pw_uid
    group = unsafe entry.pw_gid
    var groups = [gid_t](repeating: 0, count: 1024)
    let count = unsafe apus_groups(text.0, group, &groups, Int32(groups.count))
    self.groups = count > 0 ? Array(groups[..<Int(count)]) : [group]
  }
}
