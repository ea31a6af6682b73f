import ApusLoop
import CAgent
import Glibc

/// Reports changes of the network, and that the machine slept or its clock was set. Costs nothing at rest. Confined to
/// its loop.
final class SystemWatch {
  /// Reads /proc: changes with the default route and its router.
  static var networkName: String {
    let routes = (try? StateFiles.readText("/proc/net/route")) ?? nil
    let neighbours = (try? StateFiles.readText("/proc/net/arp")) ?? nil
    return NetworkName.name(routes: routes ?? "", neighbours: neighbours ?? "")
  }

  private final class Watched: SocketHandler {
    let socket: Socket
    private let read: (Int32) -> Void

    init(_ descriptor: Int32, _ loop: EventLoop, _ read: @escaping (Int32) -> Void)
      throws(SocketError)
    {
      guard descriptor >= 0 else { throw .system(.watch, code: errno, nil) }
      socket = try Socket(adopting: descriptor, loop: loop)
      self.read = read
      socket.handler = self
      socket.setInterest(reading: true, writing: false)
    }

    func socketReadable() { read(socket.descriptor) }
    func socketWritable() {}
  }

  private var watched: [Watched] = []
  private var name = networkName

  /// - Parameters:
  ///   - networkChanged: Gets the network's name.
  ///   - clockJumped: The machine woke from suspend, or its clock was set.
  init(
    loop: EventLoop, networkChanged: @escaping (String) -> Void, clockJumped: @escaping () -> Void
  ) throws(AgentFault) {
    do throws(SocketError) {
      let network = try Watched(apus_network_watch(), loop) { [weak self] descriptor in
        guard let self else { return }
        let isShaken = apus_network_read(descriptor) == 1
        let now = Self.networkName
        guard isShaken || now != name else { return }
        name = now
        networkChanged(now)
      }
      let clock = try Watched(apus_clock_watch(), loop) { descriptor in
        if apus_clock_rearm(descriptor) == 1 { clockJumped() }
      }
      watched = [network, clock]
    } catch {
      throw AgentFault("cannot watch the network and the clock: \(error)")
    }
  }

  func close() {
    for one in watched { one.socket.close() }
    watched = []
  }
}
