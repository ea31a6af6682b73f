import ApusCore
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

// Moves a connected device into a row of `DormantDevices`, and back.
//
//   awake --quiet for `dormantSeconds`, and representable--> dormant
//   dormant --socket readable, device or connection looked up, deadline reached--> awake

extension Worker {
  /// Replaces the objects of a quiet device by a row. Does nothing and returns false if the connection is not a quiet
  /// device's, or if a row cannot represent its state.
  func fallDormant(_ connection: Connection) -> Bool {
    let now = Int64(loop.nowMilliseconds)
    // A row knows no other listener's TLS than that of its device.
    guard !context.shutdown.isDrainingDevices, connection.isQuiet, connection.linked == nil,
      let courier = connection.driver as? CourierConnection, courier.isQuiet(atMilliseconds: now),
      let device = courier.device, device.mayFallDormant(atMilliseconds: now),
      let listener = dormant.reserve(connection.slot, connection.listener)
    else { return false }
    var row = DormantRow(courier.quiet, device, listener: listener, atMilliseconds: now)
    row.socket = connection.becomeDormant()
    devices.memory.keep(row, at: connection.slot)
    row.tls?.wipe()
    connections.removeObject(at: connection.slot)
    watchDormant(connection.slot)
    return true
  }

  func isDormant(_ slot: Int32) -> Bool { dormant.has(slot) }

  /// Recreates the objects of a dormant device in their previous state.
  @discardableResult func wake(_ slot: Int32) -> Connection {
    let listener = dormant.listener(of: slot)
    let device = devices.memory.wake(slot)
    let connection = wake(slot, dormant.rows[Int(slot)], listener, device)
    devices.memory.woken(device, slot)
    connections.restore(connection)
    connection.watch()
    // The worker told its connections to end while this one was dormant.
    if context.shutdown.isDrainingDevices { connection.drain() }
    return connection
  }

  private func wake(
    _ slot: Int32, _ row: borrowing DormantRow, _ listener: ServiceListener, _ device: Device
  ) -> Connection {
    let tls: TLSConnection
    if let kept = row.rest?.tls {
      tls = kept
    } else if let packed = row.tls {
      tls = TLSConnection(packed, context: listener.context)
    } else {
      preconditionFailure("a dormant connection has no TLS")
    }
    let connection = Connection(
      table: connections, listener: listener, entry: connections.entry(at: slot),
      socket: Socket(dormant: row.socket, loop: loop), peer: row.peer, tls: tls,
      acceptedMilliseconds: row.acceptedMilliseconds, stage: .open)
    connection.wake(
      CourierConnection(connection, devices, waking: row, device: device),
      deadlineSeconds: deadlineSeconds(of: row),
      watchedSeconds: row.watchedSeconds == .max ? .max : UInt64(row.watchedSeconds))
    return connection
  }

  /// Called when the wheel reaches a dormant device.
  func lookAtDormant(_ slot: Int32) {
    let now = context.nowSeconds
    guard dormant.has(slot), UInt64(dormant.rows[Int(slot)].watchedSeconds) <= now else { return }
    dormant.rows[Int(slot)].watchedSeconds = .max
    if deadlineSeconds(of: dormant.rows[Int(slot)]) <= now {
      wake(slot).deadlineReached()
    } else {
      watchDormant(slot)
    }
  }

  /// Second of the loop's clock at which the silence timeout ends or the certificate expires.
  private func deadlineSeconds(of row: borrowing DormantRow) -> UInt64 {
    guard let end = row.certificate?.notAfter else { return row.silenceSeconds }
    return min(row.silenceSeconds, context.secondAfter(end))
  }

  private func watchDormant(_ slot: Int32) {
    let deadline = deadlineSeconds(of: dormant.rows[Int(slot)])
    guard deadline < dormant.rows[Int(slot)].watchedSeconds else { return }
    dormant.rows[Int(slot)].watchedSeconds = UInt32(
      clamping: connections.watch(connections.entry(at: slot), deadlineSeconds: deadline))
  }

  /// Called when the trust was replaced or the clock jumped. Wakes only the devices whose connections must end.
  func judgeDormant(hasLostAuthority: Bool) {
    let now = context.certificateSeconds
    for slot in dormant.slots {
      let certificate = dormant.rows[Int(slot)].certificate
      let fault = certificate?.fault(
        context.trust, hasLostAuthority: hasLostAuthority, nowSeconds: now)
      if fault != nil {
        wake(slot).driver?.trustChanged(hasLostAuthority: hasLostAuthority)
      } else {
        watchDormant(slot)
      }
    }
  }
}

/// Passes the loop's socket events for dormant devices to the worker. A separate object, because the loop refers to it
/// weakly, and a weakly referenced object has slower reference counting.
final class DormantSockets: DormantSocketHandler {
  private unowned let worker: Worker

  init(worker: Worker) { self.worker = worker }

  func dormantSocketReady(_ tag: Int32) { worker.wake(tag).socketReadable() }
}
