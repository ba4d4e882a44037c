package org.bifrost.veneer;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** The description of a server's types and routines, with their numbers by name. */
final class Interface {
  /** The interface of a session without stubs whose server was not asked. */
  static final Interface EMPTY = new Interface(List.of(), List.of());

  private static final Set<String> KINDS =
      Set.of(
          "null",
          "bool",
          "int",
          "real",
          "char",
          "string",
          "bytes",
          "any",
          "array",
          "sequence",
          "list",
          "cell",
          "vector",
          "map",
          "maybe",
          "record",
          "struct",
          "oneof",
          "object");

  /** A method or a routine; {@code yields} is null unless it is an iterator. */
  record Heading(
      String name,
      List<String> paramNames,
      List<Integer> params,
      List<Integer> results,
      @Nullable List<Integer> yields,
      List<SignalHeading> signals) {}

  /** A signal of a heading. */
  record SignalHeading(String name, List<Integer> values) {}

  /** A type; {@code element} is -1 if it has none. */
  record TypeEntry(
      String name,
      List<String> names,
      String kind,
      int element,
      List<Integer> supertypes,
      List<String> fieldNames,
      List<Integer> fields,
      List<Heading> methods) {}

  final List<TypeEntry> types;
  final List<Heading> routines;

  /** The types of methods by their numbers, and the first methods of types. */
  private final List<Integer> owners = new ArrayList<>();

  private final List<Integer> firsts = new ArrayList<>();
  private final Map<String, Integer> typeNumbers = new HashMap<>();
  private final Map<Integer, Map<String, Integer>> methodNumbers = new HashMap<>();
  private final Map<String, Integer> routineNumbers = new HashMap<>();

  private Interface(List<TypeEntry> types, List<Heading> routines) {
    this.types = types;
    this.routines = routines;
    number();
  }

  /**
   * Reads an interface description.
   *
   * @throws IllegalArgumentException if it is none
   */
  static Interface parse(String text) {
    try {
      Map<?, ?> described = (Map<?, ?>) Json.parse(text);
      if (described == null
          || !described.containsKey("types")
          || !described.containsKey("routines")) {
        throw new IllegalArgumentException("types and routines are missing");
      }
      List<TypeEntry> types = new ArrayList<>();
      for (Object part : list(described.get("types"))) {
        types.add(typeOf((Map<?, ?>) part));
      }
      return new Interface(types, headings(described.get("routines")));
    } catch (ClassCastException | IllegalArgumentException bad) {
      throw new IllegalArgumentException(
          "the interface description cannot be read: " + bad.getMessage(), bad);
    }
  }

  private static List<?> list(@Nullable Object part) {
    return part == null ? List.of() : (List<?>) part;
  }

  private static int number(@Nullable Object part) {
    if (part instanceof Long number && number == (int) (long) number) {
      return (int) (long) number;
    }
    throw new IllegalArgumentException("a number is missing");
  }

  private static List<Integer> numbers(@Nullable Object part) {
    List<Integer> numbers = new ArrayList<>();
    for (Object number : list(part)) {
      numbers.add(number(number));
    }
    return numbers;
  }

  private static String name(Map<?, ?> part) {
    if (part.get("name") instanceof String name) {
      return name;
    }
    throw new IllegalArgumentException("a part has no name");
  }

  private static TypeEntry typeOf(Map<?, ?> part) {
    List<String> names = new ArrayList<>();
    list(part.get("names")).forEach(name -> names.add(String.valueOf(name)));
    List<String> fieldNames = new ArrayList<>();
    List<Integer> fields = new ArrayList<>();
    for (Object field : list(part.get("fields"))) {
      fieldNames.add(name((Map<?, ?>) field));
      fields.add(number(((Map<?, ?>) field).get("type")));
    }
    Object element = part.get("element");
    return new TypeEntry(
        name(part),
        names,
        part.get("kind") instanceof String kind ? kind : "",
        element == null ? -1 : number(element),
        numbers(part.get("supertypes")),
        fieldNames,
        fields,
        headings(part.get("methods")));
  }

  private static List<Heading> headings(@Nullable Object parts) {
    List<Heading> headings = new ArrayList<>();
    for (Object item : list(parts)) {
      Map<?, ?> part = (Map<?, ?>) item;
      List<String> paramNames = new ArrayList<>();
      List<Integer> params = new ArrayList<>();
      for (Object param : list(part.get("params"))) {
        paramNames.add(name((Map<?, ?>) param));
        params.add(number(((Map<?, ?>) param).get("type")));
      }
      List<SignalHeading> signals = new ArrayList<>();
      for (Object signal : list(part.get("signals"))) {
        Map<?, ?> one = (Map<?, ?>) signal;
        signals.add(new SignalHeading(name(one), numbers(one.get("values"))));
      }
      headings.add(
          new Heading(
              name(part),
              paramNames,
              params,
              numbers(part.get("results")),
              part.get("yields") == null ? null : numbers(part.get("yields")),
              signals));
    }
    return headings;
  }

  /** Gives all parts their numbers, and checks the numbers of types in them. */
  private void number() {
    for (int number = 0; number < types.size(); number++) {
      TypeEntry entry = types.get(number);
      if (!KINDS.contains(entry.kind())) {
        throw new IllegalArgumentException("the kind \"" + entry.kind() + "\" is unknown");
      }
      typeNumbers.putIfAbsent(entry.name(), number);
      firsts.add(owners.size());
      Map<String, Integer> methods = new HashMap<>();
      methodNumbers.put(number, methods);
      for (Heading method : entry.methods()) {
        methods.putIfAbsent(method.name(), owners.size());
        owners.add(number);
        check(method);
      }
      check(entry.supertypes());
      check(entry.fields());
      if (entry.element() != -1) {
        check(List.of(entry.element()));
      }
    }
    for (int number = 0; number < types.size(); number++) {
      for (String name : types.get(number).names()) {
        typeNumbers.putIfAbsent(name, number);
      }
    }
    for (int number = 0; number < routines.size(); number++) {
      routineNumbers.putIfAbsent(routines.get(number).name(), number);
      check(routines.get(number));
    }
    checkSupertypes();
  }

  private void check(Heading heading) {
    check(heading.params());
    check(heading.results());
    if (heading.yields() != null) {
      check(heading.yields());
    }
    heading.signals().forEach(signal -> check(signal.values()));
  }

  private void check(List<Integer> numbers) {
    for (int number : numbers) {
      if (number < 0 || number >= types.size()) {
        throw new IllegalArgumentException(
            "type " + number + " is named, and there are " + types.size() + " types");
      }
    }
  }

  /**
   * Refuses a type that is its own supertype. A description may nest deeper than a stack allows.
   */
  private void checkSupertypes() {
    int[] next = new int[types.size()];
    boolean[] isOpen = new boolean[types.size()];
    for (int first = 0; first < types.size(); first++) {
      Deque<Integer> path = new ArrayDeque<>();
      path.push(first);
      while (!path.isEmpty()) {
        int last = path.element();
        List<Integer> supertypes = types.get(last).supertypes();
        isOpen[last] = true;
        if (next[last] >= supertypes.size()) {
          isOpen[last] = false;
          path.pop();
          continue;
        }
        int above = supertypes.get(next[last]++);
        if (isOpen[above]) {
          throw new IllegalArgumentException(
              "the type \"" + types.get(above).name() + "\" is its own supertype");
        }
        path.push(above);
      }
    }
  }

  /** Returns the number of methods of all types. */
  int methodCount() {
    return owners.size();
  }

  /** Returns the name of a type; "?" if the number names none. */
  String typeName(int number) {
    return number < 0 || number >= types.size() ? "?" : types.get(number).name();
  }

  private List<String> typeNames(List<Integer> numbers) {
    return numbers.stream().map(this::typeName).toList();
  }

  /** Returns the method of a number; null if there is none. */
  @Nullable Heading method(int number) {
    if (number < 0 || number >= owners.size()) {
      return null;
    }
    int owner = owners.get(number);
    return types.get(owner).methods().get(number - firsts.get(owner));
  }

  /** Returns the name of a method: "DataBase.fetch"; "?" if the number names none. */
  String methodName(int number) {
    Heading method = method(number);
    return method == null ? "?" : typeName(owners.get(number)) + "." + method.name();
  }

  /** Returns the name of a routine; "?" if the number names none. */
  String routineName(int number) {
    return number < 0 || number >= routines.size() ? "?" : routines.get(number).name();
  }

  /** Returns the number of a type; {@code NO_NUMBER} if there is none of the name. */
  int findType(String name) {
    return typeNumbers.getOrDefault(name, Tables.NO_NUMBER);
  }

  /** Returns the number of a method of a type; {@code NO_NUMBER} if there is none. */
  int findMethod(int type, String name) {
    return methodNumbers.getOrDefault(type, Map.of()).getOrDefault(name, Tables.NO_NUMBER);
  }

  /** Returns the number of a method by its name and that of its type: "DataBase.fetch". */
  int findMethod(String name) {
    int dot = name.lastIndexOf('.');
    return dot < 0
        ? Tables.NO_NUMBER
        : findMethod(findType(name.substring(0, dot)), name.substring(dot + 1));
  }

  /** Returns the number of a routine; {@code NO_NUMBER} if there is none of the name. */
  int findRoutine(String name) {
    return routineNumbers.getOrDefault(name, Tables.NO_NUMBER);
  }

  /** Returns the number of the first type of a kind that has no element. */
  int findKind(String kind) {
    for (int number = 0; number < types.size(); number++) {
      if (types.get(number).kind().equals(kind) && types.get(number).element() == -1) {
        return number;
      }
    }
    return Tables.NO_NUMBER;
  }

  /** Returns the number of the cell type of a type; {@code NO_NUMBER} if there is none. */
  int findCell(int type) {
    for (int number = 0; number < types.size(); number++) {
      if (types.get(number).kind().equals("cell") && types.get(number).element() == type) {
        return number;
      }
    }
    return Tables.NO_NUMBER;
  }

  /** Returns the numbers of the methods behind operators, in the order of the table. */
  int[] operators() {
    int[] numbers = new int[Tables.OPERATORS.size()];
    for (int index = 0; index < numbers.length; index++) {
      Tables.OperatorRow row = Tables.OPERATORS.get(index);
      numbers[index] = findMethod(findKind(row.kind()), row.method());
    }
    return numbers;
  }

  /** Returns a heading as Theta writes it. */
  String shown(Heading heading) {
    StringBuilder text = new StringBuilder(heading.name()).append(" (");
    for (int index = 0; index < heading.params().size(); index++) {
      text.append(index == 0 ? "" : ", ")
          .append(heading.paramNames().get(index))
          .append(": ")
          .append(typeName(heading.params().get(index)));
    }
    text.append(')');
    if (heading.yields() != null) {
      text.append(" yields (").append(String.join(", ", typeNames(heading.yields()))).append(')');
    } else if (!heading.results().isEmpty()) {
      text.append(" returns (").append(String.join(", ", typeNames(heading.results()))).append(')');
    }
    List<String> signals = new ArrayList<>();
    for (SignalHeading signal : heading.signals()) {
      String values = String.join(", ", typeNames(signal.values()));
      signals.add(values.isEmpty() ? signal.name() : signal.name() + " (" + values + ")");
    }
    if (!signals.isEmpty()) {
      text.append(" signals (").append(String.join(", ", signals)).append(')');
    }
    return text.toString();
  }

  /**
   * Returns true if two headings of different interfaces have the same types of arguments and
   * results, and both yield or neither.
   */
  static boolean isSame(Interface own, Heading mine, Interface other, @Nullable Heading theirs) {
    return theirs != null
        && (mine.yields() == null) == (theirs.yields() == null)
        && own.typeNames(mine.params()).equals(other.typeNames(theirs.params()))
        && own.typeNames(futures(mine)).equals(other.typeNames(futures(theirs)));
  }

  private static List<Integer> futures(Heading heading) {
    return heading.yields() != null ? heading.yields() : heading.results();
  }
}
