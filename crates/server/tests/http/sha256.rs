//! SHA-256 as policies for browsers spell it, to check the one hash that the server carries. Only for tests.

/// `sha256-` and the hash in base64.
pub fn spelled(text: &str) -> String {
    format!("sha256-{}", base64(&sha256(text.as_bytes())))
}

fn sha256(message: &[u8]) -> Vec<u8> {
    let primes = (2_u64..).filter(|n| (2..*n).all(|divisor| n % divisor != 0));
    // The first 32 bits of the fractional parts of roots, by whole numbers: floor(root(n) * 2^32) mod 2^32.
    let root = |n: u64, power: u32| {
        let (mut low, mut high) = (0_u128, 1 << 37);
        while low + 1 < high {
            let middle: u128 = (low + high) / 2;
            // A cube of 37 bits does not overflow; what it is compared with does not either.
            match middle.pow(power) <= u128::from(n) << (32 * power) {
                true => low = middle,
                false => high = middle,
            }
        }
        low as u32
    };
    let k: Vec<u32> = primes.clone().take(64).map(|prime| root(prime, 3)).collect();
    let mut state: Vec<u32> = primes.take(8).map(|prime| root(prime, 2)).collect();

    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).div_ceil(64) * 64 - 8, 0);
    padded.extend((message.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks(64) {
        let mut w: Vec<u32> =
            block.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
        for i in 16..64 {
            let (a, b) = (w[i - 15], w[i - 2]);
            let s0 = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
            let s1 = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
            w.push(w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1));
        }
        let mut s = state.clone();
        for i in 0..64 {
            let s1 = s[4].rotate_right(6) ^ s[4].rotate_right(11) ^ s[4].rotate_right(25);
            let choice = (s[4] & s[5]) ^ (!s[4] & s[6]);
            let t1 = s[7].wrapping_add(s1).wrapping_add(choice).wrapping_add(k[i]).wrapping_add(w[i]);
            let s0 = s[0].rotate_right(2) ^ s[0].rotate_right(13) ^ s[0].rotate_right(22);
            let majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
            s.rotate_right(1);
            s[4] = s[4].wrapping_add(t1);
            s[0] = t1.wrapping_add(s0).wrapping_add(majority);
        }
        state.iter_mut().zip(s).for_each(|(word, more)| *word = word.wrapping_add(more));
    }
    state.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |chunk: &[u8]| {
        let bits = (0..3).fold(0_usize, |bits, i| bits << 8 | usize::from(*chunk.get(i).unwrap_or(&0)));
        (0..4)
            .map(move |i| match i <= chunk.len() {
                true => LETTERS[bits >> (18 - 6 * i) & 63] as char,
                false => '=',
            })
            .collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

#[test]
fn hashes_as_everybody_does() {
    assert_eq!(spelled(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    assert_eq!(spelled("abc"), "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
}
