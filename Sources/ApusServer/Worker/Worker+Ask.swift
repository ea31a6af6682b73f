import ApusLoop
import ApusThread

extension Worker {
  /// Runs `body` on the worker's thread and waits for its answer.
  func ask<Answer: Sendable>(_ body: @escaping @Sendable (Worker) -> Answer) -> Answer {
    let answer = Monitor<Answer?>(nil)
    loop.perform {
      let found = body(self)
      answer.notify { $0 = found }
    }
    return answer.take()
  }
}
