import ApusDirectory
import ApusTesting
import Foundation
import Glibc
import Testing

@testable import ApusServer

/// A data directory on its own mount, which can be made read-only. Mounting requires root, so these tests run only
/// where that is possible; `DiskFaultServiceTests` checks the same for the store without it.
@Suite(
  "A read-only data directory", .serialized,
  .enabled(if: getuid() == 0, "mounting takes root"))
final class ReadOnlyMountTests {
  private let bench: DiskBench
  private var path: String { bench.directory.data.path }

  init() throws { bench = try DiskBench() }

  deinit { umount2(path, Int32(MNT_DETACH)) }

  private func mountReadOnly() throws {
    try #require(mount(path, path, nil, UInt(MS_BIND), nil) == 0, "errno \(errno)")
    try remount(isReadOnly: true)
  }

  private func remount(isReadOnly: Bool) throws {
    var flags = UInt(MS_BIND) | UInt(MS_REMOUNT)
    if isReadOnly { flags |= UInt(MS_RDONLY) }
    try #require(mount(nil, path, nil, flags, nil) == 0, "errno \(errno)")
  }

  @Test("The service starts, delivers, and recovers when the mount is writable")
  func starting() throws {
    let (device, token) = try bench.start().absentDevice()
    #expect(try bench.push("before", to: token) == 200)
    bench.stop()
    try mountReadOnly()
    let service = try bench.start()
    try bench.log.await("still takes no writes")
    #expect(try bench.push("meanwhile", to: token) == 503)
    let present = try service.connect(device)
    try present.filter([(2, TestDirectory.topic)])
    #expect(try present.notification()[3] == DiskBench.payload("before"))
    try present.settle()
    try remount(isReadOnly: false)
    try bench.log.await("takes writes again")
    present.client.tls.close()
    try bench.pushUntilTaken("after", to: token)
    let arrived = try bench.fetch(device)
    #expect(
      arrived.filter { $0 != DiskBench.payload("meanwhile") }
        == ["before", "after"].map(DiskBench.payload))
    bench.stop()
  }
}
