import Glibc

extension AgentConfiguration {
  /// What the configuration refers to and the machine does not have, in sentences without a full stop.
  package func missingThings() -> [String] {
    var problems: [String] = []
    func need(_ path: String, _ mode: Int32, _ what: String) {
      if unsafe access(path, mode) != 0 {
        problems.append("\(what) \(path) is missing or unusable")
      }
    }
    need(authorityFile, R_OK, "the authority's file")
    for user in grants.map(\.user) + topics.flatMap({ $0.forward ?? [] }) where user != "*" {
      if Account(named: user) == nil { problems.append("there is no user \"\(user)\"") }
    }
    for rule in topics {
      if let run = rule.run {
        need(run.words[0], X_OK, "\(rule.topic): the command")
        need(run.directory, X_OK, "\(rule.topic): the folder")
        if let user = run.user, Account(named: user) == nil {
          problems.append("\(rule.topic): there is no user \"\(user)\"")
        }
      }
      if let write = rule.write {
        let folder = write.path.lastIndex(of: "/").map { String(write.path[..<$0]) + "/" } ?? "/"
        need(folder, W_OK, "\(rule.topic): the folder")
      }
      if let strings = rule.show?.strings { need(strings, R_OK, "\(rule.topic): the texts in") }
      if let program = rule.show?.onAction?.first {
        need(program, X_OK, "\(rule.topic): the command")
      }
    }
    return problems
  }
}
