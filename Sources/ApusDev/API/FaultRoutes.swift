import ApusWeb
import ApusWire

/// Routes for faults.
struct FaultRoutes {
  let context: DevContext

  func answer(
    _ operation: DevOperation, _ input: DevInput
  ) throws(DevProblem) -> WebResponse {
    switch operation {
    case .listFaults:
      return WebResponse { writer in
        writer.key("faults")
        writer.beginArray()
        for rule in context.faults.rules { rule.write(to: &writer) }
        writer.endArray()
      }
    case .addFault: return try add(input)
    case .removeFaults: context.faults.removeAll()
    default:
      guard let id = UInt64(input.parameter()), context.faults.remove(id) else {
        throw DevProblem(.notFound, "the fault \(input.parameter()) does not exist")
      }
    }
    context.announce(.fault)
    return WebResponse { _ in }
  }

  private func add(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let rule: FaultRule
    do throws(InputFault) {
      rule = try context.faults.add(try JSONText.parse(input.request.body))
    } catch {
      throw DevProblem(error, in: input.request.body)
    }
    context.announce(.fault)
    var writer = JSONWriter()
    rule.write(to: &writer)
    return WebResponse(writer, status: 201)
  }
}
