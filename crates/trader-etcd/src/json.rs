//! Shared offers as JSON.

use bifrost_trader::property::{Properties, Value};
use bifrost_trader::shared::Stored;
use bifrost_trader::{Offer, OfferId};
use serde_json::json;

/// Returns an offer as JSON.
pub fn write(stored: &Stored) -> String {
    let offer = &stored.offer;
    let properties = offer.properties.iter().map(|(name, value)| (name.to_owned(), json!(value.to_text())));
    let addresses: Vec<&str> = offer.addresses.iter().map(|address| &**address).collect();
    json!({
        "role": stored.role,
        "exclusive": stored.exclusive,
        "lease_ms": stored.lease_ms,
        "names": stored.names,
        "service": &*offer.service,
        "digest": hexadecimal(&offer.digest),
        "name": &*offer.name,
        "addresses": addresses,
        "properties": properties.collect::<serde_json::Map<_, _>>(),
        "load": offer.load,
        "doubtful": offer.doubtful,
    })
    .to_string()
}

/// Reads an offer with the number that it has at its trader; nothing if the text is none.
pub fn read(number: u64, text: &[u8]) -> Option<Stored> {
    let json: serde_json::Value = serde_json::from_slice(text).ok()?;
    let texts = |name: &str| -> Option<Vec<String>> {
        json[name].as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let mut properties = Properties::new();
    for (name, value) in json["properties"].as_object()? {
        properties.set(name, Value::from_text(value.as_str()?).ok()?);
    }
    Some(Stored {
        role: json["role"].as_str()?.to_owned(),
        exclusive: json["exclusive"].as_bool()?,
        lease_ms: json["lease_ms"].as_u64()?,
        names: texts("names")?,
        offer: Offer {
            id: OfferId(number),
            service: json["service"].as_str()?.into(),
            digest: digest(json["digest"].as_str()?)?,
            name: json["name"].as_str()?.into(),
            addresses: texts("addresses")?.into_iter().map(Into::into).collect(),
            properties,
            load: json["load"].as_f64(),
            doubtful: json["doubtful"].as_bool()?,
        },
    })
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    (text.len() == 64).then_some(digest)
}

#[cfg(test)]
mod tests {
    use bifrost_trader::Limits;

    use super::*;

    #[test]
    fn offers_are_read_as_they_were_written() {
        let properties =
            Properties::parse("region=eu&tier=2&ratio=0.5&ready=true&code='1'", &Limits::default());
        let stored = Stored {
            role: "data".into(),
            exclusive: true,
            lease_ms: 15_000,
            names: vec!["Fast".into(), "Store".into()],
            offer: Offer {
                id: OfferId(7),
                service: "Fast".into(),
                digest: [0xab; 32],
                name: "a\"b".into(),
                addresses: vec!["tcp://a:1".into(), "unix:///run/a".into()],
                properties: properties.unwrap(),
                load: Some(0.25),
                doubtful: false,
            },
        };
        assert_eq!(read(7, write(&stored).as_bytes()), Some(stored));
    }

    #[test]
    fn texts_that_are_no_offers_are_none() {
        let good =
            write(&Stored { offer: Offer { id: OfferId(1), ..Offer::default() }, ..Stored::default() });
        assert!(read(1, good.as_bytes()).is_some());
        for wrong in ["", "{}", "[1]", &good.replace("\"lease_ms\":0", "\"lease_ms\":-1")] {
            assert_eq!(read(1, wrong.as_bytes()), None, "{wrong}");
        }
    }
}
