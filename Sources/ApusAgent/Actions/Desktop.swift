import ApusDevice
import ApusLog
import ApusLoop
import ApusWire
import Glibc

/// Shows notifications on the desktop of the user. Confined to its loop.
final class Desktop {
  /// Shown notifications whose actions and replacements are known.
  private static let capacity = 256

  /// Called when the user chooses an action.
  var onAction: ((Arrival, String) -> Void)?
  private let loop: EventLoop
  private let log: Log
  private var bus: SessionBus?
  private var shown: [(id: UInt32, arrival: Arrival)] = []

  init(loop: EventLoop, log: Log) {
    self.loop = loop
    self.log = log
  }

  /// Shows it. `completion` is called once, on the loop.
  func show(_ arrival: Arrival, _ rule: ShowRule, completion: @escaping (ActionResult) -> Void) {
    do throws(AgentFault) {
      let bus = try openBus()
      let strings = try rule.strings.map { (path) throws(AgentFault) in try Self.strings(path) }
      guard let presentation = Presentation(payload: arrival.payload, strings: strings ?? [:])
      else { return completion(.failed("the payload is no object")) }
      if let badge = presentation.badge, let desktop = rule.desktop {
        bus.setBadge(badge, desktop: desktop)
      }
      // Asked each time, because the user may start another desktop.
      bus.askCapabilities { [weak self] result in
        switch result {
        case .failure(let fault): completion(.again(fault.problem))
        case .success(let capabilities):
          let note = DesktopNote(
            presentation, topic: arrival.topic, rule: rule,
            hasMarkup: capabilities.contains("body-markup")
          ) { unsafe access($0, R_OK) == 0 }
          guard let note else { return completion(.done("no text to show")) }
          self?.send(note, arrival, completion)
        }
      }
    } catch {
      completion(.again(error.problem))
    }
  }

  private func send(
    _ note: DesktopNote, _ arrival: Arrival, _ completion: @escaping (ActionResult) -> Void
  ) {
    guard let bus else { return completion(.again("the session bus has gone")) }
    bus.notify(note, replacing: replaced(by: arrival)) { [weak self] result in
      switch result {
      case .success(let id):
        self?.remember(id, arrival)
        completion(.done("shown as \(id)"))
      case .failure(let fault): completion(.again(fault.problem))
      }
    }
  }

  /// The number of the notification that this one replaces; 0 for none.
  private func replaced(by arrival: Arrival) -> UInt32 {
    guard let collapseID = arrival.collapseID else { return 0 }
    return shown.last {
      $0.arrival.collapseID == collapseID && $0.arrival.topic == arrival.topic
    }?.id ?? 0
  }

  private func remember(_ id: UInt32, _ arrival: Arrival) {
    shown.removeAll { $0.id == id }
    shown.append((id, arrival))
    if shown.count > Self.capacity { shown.removeFirst() }
  }

  // MARK: The bus

  private func openBus() throws(AgentFault) -> SessionBus {
    if let bus { return bus }
    let bus = try SessionBus(loop: loop)
    self.bus = bus
    bus.onAction = { [weak self] id, action in
      guard let self, let entry = shown.first(where: { $0.id == id }) else { return }
      onAction?(entry.arrival, action)
    }
    bus.onClosed = { [weak self] id in self?.shown.removeAll { $0.id == id } }
    bus.onEnd = { [weak self] reason in self?.ended(reason) }
    return bus
  }

  private func ended(_ reason: String) {
    log(.warning, "the session bus has gone", .text("reason", reason))
    bus = nil
    shown = []
  }

  // MARK: Texts

  /// The texts of an app by key, in the user's language.
  static func strings(_ path: String) throws(AgentFault) -> [String: String] {
    let names = Languages.names { name in
      unsafe getenv(name).map { unsafe String(cString: $0) }
    }
    for file in [path] + names.map({ "\(path)/\($0).json" }) {
      var status = stat()
      guard unsafe stat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { continue }
      guard let bytes = try StateFiles.read(file),
        let object = (try? JSONValue(parsing: bytes.span))?.object
      else { throw AgentFault("\(file) is not a JSON object with text values") }
      return Dictionary(
        object.members.compactMap { member in member.value.string.map { (member.key, $0) } }
      ) { first, _ in first }
    }
    throw AgentFault(
      "\(path) has texts in none of these languages: \(names.joined(separator: ", "))")
  }
}
