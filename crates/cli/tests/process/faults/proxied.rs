//! A bad way to a good server: connections are cut, stand still and dribble, answers are lost, and old connections end after
//! the same request has come in on new ones. Everybody asks again under the same id, and everything happens once.

use std::time::Duration;

use super::crew::{Crew, Seat};
use super::weather::{Trouble, Weather};
use super::{needs, verdict};
use crate::lock::stage::until;
use crate::program::Place;

const CREW: usize = 8;

#[test]
fn trouble_on_the_way_loses_nothing_and_doubles_nothing() {
    if !needs::met(&[]) {
        return;
    }
    let place = Place::new();
    let server = place.serve();
    let weather = Weather::before(server.address);
    let crew = Crew::start("way", &vec![Seat::at(weather.address()); CREW]);
    for round in 0..if needs::full() { 20 } else { 1 } {
        for trouble in Trouble::ALL {
            crew.until_answered(100);
            let ms = match trouble {
                // Longer than anybody waits for an answer.
                Trouble::EndLate => 3_500,
                _ => 200 + 100 * (round % 8),
            };
            // Everybody may be between two requests just then.
            let mut met = 0;
            until("it met somebody", || {
                met = weather.trouble(trouble, Duration::from_millis(ms));
                met > 0
            });
            println!("{trouble:?} met {met}");
        }
    }
    crew.until_answered(100);
    println!("{} requests went out twice at once", crew.twins());
    assert!(crew.twins() > 0, "no request went out twice");
    let tally = verdict::judge("way", crew.finish(), &mut server.client());
    println!("way: {tally:?}");
    assert!(tally.open_ended > 0, "nobody was left without an answer");
    assert!(tally.grants > 100 && tally.writes > 100, "{tally:?}");
    server.stop();
}
