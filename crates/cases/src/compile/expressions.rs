//! Expressions of lines: calls, their operands, the names of their results.

use bifrost_wire::interface::{Kind, Method, Shape};
use bifrost_wire::text::tree::{Expr, ExprKind};
use bifrost_wire::{TypeNumber, Value, json as wire_json};
use serde_json::{Value as Json, json};

use super::{Compiled, Compiler};

impl Compiler<'_> {
    /// Records an expression, and gives its results these names.
    pub(super) fn results(&mut self, targets: Vec<String>, expression: Expr) -> Compiled<()> {
        if let ([target], Some(value)) = (targets.as_slice(), literal(&expression.kind)) {
            let kind = value.as_object().and_then(|value| value.keys().next()).cloned().unwrap_or_default();
            let ty = self.client.find_type(if kind == "nil" { "null" } else { &kind });
            self.step(json!({"value": value, "as": target}));
            self.names.insert(target.clone(), ty);
            return Ok(());
        }
        if let ([target], ExprKind::Variable(name)) = (targets.as_slice(), &expression.kind) {
            let name = format!("${name}");
            let ty = self.known(&name)?;
            self.step(json!({"clone": name, "as": target}));
            self.names.insert(target.clone(), ty);
            return Ok(());
        }
        let (mut step, types) = self.call(expression)?;
        if targets.len() > types.len().max(1) {
            return Err(format!("it has {} results", types.len()));
        }
        let mut names = targets.clone();
        // Several results have names, so that each has a stub.
        while types.len() > 1 && names.len() < types.len() {
            names.push(self.fresh());
        }
        match names.as_slice() {
            [] => {}
            [one] => step["as"] = json!(one),
            several => step["as"] = json!(several),
        }
        self.step(step);
        match types.as_slice() {
            [] => self.names.extend(targets.into_iter().map(|name| (name, None))),
            types => self.bind(&targets, types),
        }
        Ok(())
    }

    /// Returns an operand, recording the calls inside. `ty` is the type of its place.
    pub(super) fn operand(&mut self, expression: Expr, ty: Option<TypeNumber>) -> Compiled<Json> {
        if let Some(value) = literal(&expression.kind) {
            return Ok(value);
        }
        match expression.kind {
            ExprKind::Items(None, items) => self.items(items, ty),
            _ => Ok(json!(self.stub(expression)?.0)),
        }
    }

    /// Returns the items of a compound of a type.
    fn items(&mut self, items: Vec<(Option<String>, Expr)>, ty: Option<TypeNumber>) -> Compiled<Json> {
        let ty = ty.and_then(|ty| self.client.interface().ty(ty)).cloned();
        let (shape, fields) = match &ty {
            Some(ty) => (ty.kind.shape(), ty.fields.clone()),
            None => (None, Vec::new()),
        };
        let mut parts = Vec::new();
        if shape == Some(Shape::Choice) {
            let [(Some(tag), value)] = <[_; 1]>::try_from(items).map_err(|_| "one tag")? else {
                return Err("a tag".into());
            };
            let at = fields.iter().position(|field| field.name == tag).ok_or("a tag of the type")?;
            parts.push(json!({"int": at.to_string()}));
            parts.push(self.operand(value, Some(fields[at].ty))?);
        } else {
            let mut ordered: Vec<Option<Json>> = items.iter().map(|_| None).collect();
            for (index, (name, value)) in items.into_iter().enumerate() {
                let at = match &name {
                    Some(name) => {
                        fields.iter().position(|field| field.name == *name).ok_or("a field of the type")?
                    }
                    None => index,
                };
                let of = fields.get(at).map(|field| field.ty).or_else(|| ty.as_ref()?.element);
                let value = self.operand(value, of)?;
                *ordered.get_mut(at).ok_or("all fields")? = Some(value);
            }
            parts.extend(ordered.into_iter().map(|part| part.unwrap_or(Json::Null)));
        }
        Ok(json!({"items": parts}))
    }

    /// Returns the name of a stub, and its type. A call is recorded; a literal becomes a value.
    pub(super) fn stub(&mut self, expression: Expr) -> Compiled<(String, Option<TypeNumber>)> {
        if let ExprKind::Variable(name) = &expression.kind {
            let name = format!("${name}");
            let ty = self.known(&name)?;
            return Ok((name, ty));
        }
        let before = self.temporary.len();
        if let Some(value) = literal(&expression.kind) {
            let name = self.fresh();
            let kind = value.as_object().and_then(|value| value.keys().next()).cloned().unwrap_or_default();
            self.step(json!({"value": value, "as": name}));
            return Ok((name, self.client.find_type(&kind)));
        }
        let (mut step, types) = self.call(expression)?;
        let names: Vec<String> = (0..types.len().max(1)).map(|_| self.fresh()).collect();
        step["as"] = if names.len() == 1 { json!(names[0]) } else { json!(names) };
        self.step(step);
        debug_assert!(self.temporary.len() > before, "it is dropped behind the line");
        Ok((names[0].clone(), types.first().copied()))
    }

    /// Returns the step of a call without the names of its results, and their types.
    pub(super) fn call(&mut self, expression: Expr) -> Compiled<(Json, Vec<TypeNumber>)> {
        let bool = self.client.find_type("bool").unwrap_or_default();
        Ok(match expression.kind {
            ExprKind::Lookup(name, ty) => {
                let ty = self.ty(&ty.ok_or("a `lookup` has a type here")?)?;
                (json!({"lookup": name, "type": self.client.interface().type_name(ty)}), vec![ty])
            }
            ExprKind::Cell(ty) => {
                let element = self.ty(&ty)?;
                let cell =
                    self.client.interface().find_kind(Kind::Cell, Some(element)).ok_or("such a cell")?;
                (json!({"cell": self.client.interface().type_name(element)}), vec![cell])
            }
            ExprKind::Rows(types) => {
                let types: Compiled<Vec<TypeNumber>> = types.iter().map(|ty| self.ty(ty)).collect();
                (json!({"rows": self.type_names(&types?)}), Vec::new())
            }
            ExprKind::As(object, ty) => {
                let ty = self.ty(&ty)?;
                let object = self.stub(*object)?.0;
                (json!({"cast": self.client.interface().type_name(ty), "on": object}), vec![ty])
            }
            ExprKind::Is(object, ty) => {
                let ty = self.ty(&ty)?;
                let object = self.stub(*object)?.0;
                (json!({"test_type": self.client.interface().type_name(ty), "on": object}), vec![bool])
            }
            ExprKind::Get(object) => (json!({"get": self.stub(*object)?.0}), Vec::new()),
            ExprKind::Commit => (json!({"commit": true}), Vec::new()),
            ExprKind::Abort => (json!({"abort": true}), Vec::new()),
            ExprKind::Wait(ms) => (json!({"wait": ms}), vec![bool]),
            ExprKind::Transaction(tries, batch) => {
                let mut settings = json!({"tries": tries});
                if let Some(batch) = batch {
                    settings["batch"] =
                        json!({"client": format!("{:032x}", batch.client), "number": batch.number});
                }
                (json!({"transaction": settings}), Vec::new())
            }
            ExprKind::Call(Some(receiver), name, args) => {
                let (on, ty) = self.stub(*receiver)?;
                let ty = ty.ok_or_else(|| format!("the type of {on} is not known"))?;
                let number = self.client.find_method(ty, &name);
                let (owner, method) =
                    number.and_then(|number| self.client.method(number)).ok_or_else(|| {
                        format!("{} has no method `{name}`", self.client.interface().type_name(ty))
                    })?;
                let (owner, method) = (self.client.interface().type_name(owner).to_owned(), method.clone());
                let args = self.arguments(&method, args)?;
                let called = format!("{owner}.{name}");
                (json!({"call": called, "on": on, "args": args}), method.heading.futures().to_vec())
            }
            ExprKind::Call(None, name, args) => match self.procedures.get(&name).cloned() {
                Some((params, result)) => {
                    if params.len() != args.len() {
                        return Err(format!("`{name}` has {} parameters", params.len()));
                    }
                    let args: Compiled<Vec<Json>> =
                        args.into_iter().zip(params).map(|(arg, ty)| self.operand(arg, Some(ty))).collect();
                    (json!({"call_procedure": name, "args": args?}), result.into_iter().collect())
                }
                None => {
                    let number = self.client.find_routine(&name);
                    let routine = number.and_then(|number| self.client.routine(number)).cloned();
                    let routine = routine.ok_or_else(|| format!("there is no routine `{name}`"))?;
                    let args = self.arguments(&routine, args)?;
                    (json!({"routine": name, "args": args}), routine.heading.futures().to_vec())
                }
            },
            other => return Err(format!("{other:?} is no call")),
        })
    }

    fn arguments(&mut self, method: &Method, args: Vec<Expr>) -> Compiled<Vec<Json>> {
        let params = &method.heading.params;
        if params.len() != args.len() {
            return Err(format!("`{}` has {} parameters", method.name, params.len()));
        }
        args.into_iter().zip(params).map(|(arg, param)| self.operand(arg, Some(param.ty))).collect()
    }
}

/// Returns the value of a literal.
fn literal(kind: &ExprKind) -> Option<Json> {
    let value = match kind {
        ExprKind::Nil => Value::Nil,
        ExprKind::Bool(is) => Value::Bool(*is),
        ExprKind::Int(number) => Value::Int(*number),
        ExprKind::Real(number) => Value::Real(*number),
        ExprKind::Char(c) => Value::Char(*c),
        ExprKind::Str(text) => Value::Str(text),
        ExprKind::Bytes(bytes) => Value::Bytes(bytes),
        _ => return None,
    };
    Some(wire_json::value(&value))
}
