//! A run as JSON, to and fro: every repetition of every value, and its median.

use serde_json::{Value, json};

use super::Taken;
use super::goals::{self, Judged};
use crate::book::{Book, Key};
use crate::compare::Met;
use crate::drive::Values;
use crate::peers::Skipped;

/// Everything, in lines that show a change as a small difference.
pub fn write(taken: &Taken) -> String {
    let systems: Vec<Value> = taken.met.iter().map(system).collect();
    let figures: Vec<Value> =
        taken.book.figures().map(|(key, rounds)| figure(&taken.book, key, rounds)).collect();
    let machine: Vec<Value> =
        taken.machine.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    let goals: Vec<Value> = goals::judged(&taken.book)
        .map(|Judged { goal, measured, single, fastest }| {
            let fastest = fastest.map(|ratio| json!({ "measured": ratio, "verdict": goal.verdict(fastest) }));
            json!({
                "workload": goal.workload,
                "against": goal.against,
                "reach": goal.reach,
                "aim": goal.aim,
                "measured": measured,
                "single": single,
                "verdict": goal.verdict(measured),
                "against_fastest_client": fastest,
            })
        })
        .collect();
    let all = json!({
        "quick": taken.quick,
        "machine": machine,
        "systems": systems,
        "goals": goals,
        "failures": taken.book.failures(),
        "figures": figures,
    });
    format!("{all:#}\n")
}

fn system(met: &Met) -> Value {
    match &met.what {
        Ok((version, settings)) => {
            json!({ "name": met.name, "title": met.title, "version": version, "settings": settings })
        }
        Err(Skipped(why)) => json!({ "name": met.name, "title": met.title, "skipped": why }),
    }
}

fn figure(book: &Book, key: &Key, rounds: &[Values]) -> Value {
    let names = rounds.first().into_iter().flat_map(|values| values.keys());
    let medians: serde_json::Map<String, Value> =
        names.map(|name| ((*name).to_owned(), json!(book.value(key, name)))).collect();
    json!({
        "workload": key.workload,
        "system": key.system,
        "way": key.way,
        "size": key.size,
        "median": medians,
        "rounds": rounds,
    })
}

/// What `write` has written.
pub fn read(text: &str) -> Result<Taken, String> {
    let all: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let list = |name: &str| all[name].as_array().ok_or_else(|| format!("there is no list of {name}"));
    let mut book = Book::default();
    for figure in list("figures")? {
        let size = figure["size"].as_u64().and_then(|size| usize::try_from(size).ok());
        let key = Key {
            workload: word(&figure["workload"])?,
            system: word(&figure["system"])?,
            way: word(&figure["way"])?,
            size: size.ok_or("a figure without its size")?,
        };
        for round in figure["rounds"].as_array().ok_or("a figure without its rounds")? {
            let values = round.as_object().into_iter().flatten();
            let values = values.filter_map(|(name, value)| Some((kept(name), value.as_f64()?)));
            book.record(key.clone(), values.collect());
        }
    }
    for failure in list("failures")? {
        let failure = word(failure)?;
        let (what, why) = failure.split_once(": ").unwrap_or((failure, ""));
        book.fail(what, why);
    }
    let met = list("systems")?.iter().map(|system| {
        let strings = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
        };
        let what = match &system["skipped"] {
            Value::String(why) => Err(Skipped(why.clone())),
            _ => Ok((word(&system["version"])?.to_owned(), strings(&system["settings"]))),
        };
        Ok(Met { name: word(&system["name"])?, title: word(&system["title"])?, what })
    });
    let machine = list("machine")?
        .iter()
        .map(|fact| Ok((word(&fact["name"])?.to_owned(), word(&fact["value"])?.to_owned())));
    Ok(Taken {
        quick: all["quick"].as_bool().unwrap_or(false),
        machine: machine.collect::<Result<_, String>>()?,
        met: met.collect::<Result<_, String>>()?,
        book,
    })
}

fn word(value: &Value) -> Result<&'static str, String> {
    value.as_str().map(kept).ok_or_else(|| format!("{value} where there should be a word"))
}

/// Keys are words of the program elsewhere. What is read here is kept for as long as the program runs, which is a moment.
fn kept(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut book = Book::default();
        let key = Key { workload: "uncontended", system: "leasehold", way: "stream", size: 64 };
        for round in [1.5, 2.5, 9.0] {
            book.record(key.clone(), Values::from([("per_second", round), ("p50_us", round * 2.0)]));
        }
        book.fail("zookeeper, 64 clients", "no answer");
        let met = [
            ("leasehold", Ok(("leasehold 1".to_owned(), vec!["serve".to_owned()]))),
            ("etcd", Err(Skipped("not there".to_owned()))),
        ];
        let taken = Taken {
            quick: true,
            machine: vec![("kernel".to_owned(), "6.1".to_owned())],
            met: met.into_iter().map(|(name, what)| Met { name, title: name, what }).collect(),
            book,
        };
        let text = write(&taken);
        let again = read(&text).unwrap();
        assert_eq!(again.book.value(&key, "per_second"), Some(2.5));
        assert_eq!(write(&again), text);
        assert!(read("{}").is_err());
    }
}
