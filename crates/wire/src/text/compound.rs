//! Compounds in lines: `value point {x: 1, y: 2}`, `{1, 2}`.

use crate::ids::TypeNumber;
use crate::interface::{Shape, Type};
use crate::value::{Arg, OwnedCompound, OwnedValue};

use super::parser::Expr;
use super::translate::{Known, LineError, Translated, Translator, Typed};

impl Translator {
    /// Returns a value of a type, by its items.
    pub(super) fn compound(
        &mut self,
        column: usize,
        ty: TypeNumber,
        items: &[(Option<String>, Expr)],
        out: &mut Vec<u8>,
    ) -> Translated<Typed> {
        let bad = |text: String| LineError::new(column, text);
        let numbering = self.numbering.clone();
        let Some(def) = numbering.interface().ty(ty).filter(|def| def.kind.is_compound()) else {
            let name = numbering.interface().type_name(ty);
            let text = "is not made by value, as sequences, structs, oneofs and `maybe` are";
            return Err(bad(format!("`{name}` {text}")));
        };
        let mut known: Vec<Known> = Vec::with_capacity(items.len());
        match def.kind.shape() {
            Some(Shape::Fields) => {
                for item in fields(column, def, items)? {
                    known.push(self.expression_of(item.0, item.1, out)?.known);
                }
            }
            Some(Shape::Choice) => {
                let [(Some(label), item)] = items else {
                    return Err(bad(format!("a `{}` is written by one tag, as in `{{some: 1}}`", def.name)));
                };
                let tag = def.fields.iter().position(|field| field.name == *label);
                let tag = tag.ok_or_else(|| bad(format!("`{}` has no tag `{label}`", def.name)))?;
                known.push(Known::Value(OwnedValue::Int(tag as i64)));
                known.push(self.expression_of(item, def.fields[tag].ty, out)?.known);
            }
            _ => {
                for (label, item) in items {
                    if let Some(label) = label {
                        return Err(bad(format!("`{}` has no field `{label}`", def.name)));
                    }
                    let element = def.element.unwrap_or(TypeNumber::NONE);
                    known.push(self.expression_of(item, element, out)?.known);
                }
            }
        }
        let items: Vec<Arg<'_>> = known.iter().map(Known::arg).collect();
        // The line nests at most as deep as values may.
        let compound = OwnedCompound::new(ty, &items);
        Ok(Typed { known: Known::Value(OwnedValue::Compound(compound)), ty })
    }
}

/// Returns the value of each field of a struct, with its type, in the order of the fields.
fn fields<'e>(
    column: usize,
    def: &Type,
    items: &'e [(Option<String>, Expr)],
) -> Translated<Vec<(&'e Expr, TypeNumber)>> {
    let bad = |text: String| LineError::new(column, text);
    let known = |label: &String| def.fields.iter().any(|field| field.name == *label);
    if let Some(label) = items.iter().filter_map(|item| item.0.as_ref()).find(|label| !known(label)) {
        return Err(bad(format!("`{}` has no field `{label}`", def.name)));
    }
    if items.len() > def.fields.len() {
        return Err(bad(format!("`{}` has only {} fields", def.name, def.fields.len())));
    }
    let fields = def.fields.iter().enumerate().map(|(at, field)| {
        let labelled = items.iter().find(|item| item.0.as_ref() == Some(&field.name));
        let found = labelled.or_else(|| items.get(at).filter(|item| item.0.is_none()));
        let item = found.ok_or_else(|| bad(format!("the field `{}` is missing", field.name)))?;
        Ok((&item.1, field.ty))
    });
    fields.collect()
}
